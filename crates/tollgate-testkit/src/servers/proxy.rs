//! A TCP proxy that misbehaves on demand, between a client and its server.
//!
//! It does to a connection what networks do, and nothing they never do. In particular, a connection that has lost one
//! reply carries no further reply: TCP loses nothing in the middle, so a later reply in its place would teach a client to
//! fear what cannot happen. Such a connection is *deaf* until it is closed; a new one is sound.
//!
//! Replies are told apart by the rules of RESP, greetings (`HELLO`, `CLIENT SETINFO`) included. Before servers that speak
//! something else, use the switches that do not count replies.

mod frames;
mod line;
mod switches;

use std::{
    fmt,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::net::Shutdown;

use self::{
    line::OpenLine,
    switches::{Swallow, Switchboard},
};
use super::ports;

/// A proxy on a port of its own. Switches take effect at once, also on connections that are open. Its threads end when
/// it is dropped.
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    /// Nothing while connections are refused.
    door: Mutex<Option<Door>>,
}

/// What the handle and the threads have in common.
struct Shared {
    target: SocketAddr,
    board: Arc<Switchboard>,
    lines: Mutex<Vec<OpenLine>>,
    accepted: AtomicU64,
}

/// The thread that takes connections.
struct Door {
    listener: Arc<TcpListener>,
    is_closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy that passes everything on to this address, until told otherwise.
    #[track_caller]
    pub fn to(target: impl ToSocketAddrs) -> Self {
        let target = target.to_socket_addrs().ok().and_then(|mut found| found.next()).expect("an address");
        let (listener, port) = ports::listen();
        let lines = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { target, board: Arc::default(), lines, accepted: AtomicU64::new(0) });
        let door = Mutex::new(Some(Door::open(listener, Arc::clone(&shared))));
        Self { port, shared, door }
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Everything is well again: all switches off, connections welcome. Deaf connections stay deaf.
    #[track_caller]
    pub fn pass(&self) {
        self.shared.board.turn(|switches| *switches = Default::default());
        let mut door = self.door();
        if door.is_none() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).expect("our port is still ours");
            *door = Some(Door::open(listener, Arc::clone(&self.shared)));
        }
    }

    /// Requests arrive, replies are lost: from now on, on every connection that has a reply to carry.
    pub fn swallow_replies(&self) {
        self.shared.board.turn(|switches| switches.swallow = Swallow::All);
    }

    /// The same for the next so many replies, whichever connections they come on. Connections that lose none stay sound.
    pub fn swallow_next_replies(&self, count: u64) {
        self.shared.board.turn(|switches| switches.swallow = Swallow::Next(count));
    }

    /// Every reply takes this much longer, without holding up the ones behind it.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.board.turn(|switches| switches.delay = delay);
    }

    /// Nothing gets through in either direction, and nobody is told. What is sent meanwhile arrives after [`Self::pass`],
    /// as it does when a network comes back before TCP gives up. Connecting still works: the kernel answers for us.
    pub fn blackhole(&self) {
        self.shared.board.turn(|switches| switches.is_blackhole = true);
    }

    /// The next reply breaks off after so many bytes, and its connection ends.
    pub fn cut_next_reply_after(&self, bytes: usize) {
        self.shared.board.turn(|switches| switches.cut_after = Some(bytes));
    }

    /// New connections are refused by the kernel, as if nothing listened. Open ones go on.
    pub fn refuse_connections(&self) {
        if let Some(door) = self.door().take() {
            door.close();
        }
    }

    /// Ends all connections, politely (FIN).
    pub fn cut(&self) {
        self.shared.lines().drain(..).for_each(OpenLine::cut);
    }

    /// Ends all connections the hard way: clients see "connection reset" (RST).
    pub fn reset(&self) {
        self.shared.lines().drain(..).for_each(OpenLine::reset);
    }

    /// Connections taken so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Bytes of requests handed to the server so far.
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.board.bytes_to_server.load(Ordering::Relaxed)
    }

    /// Bytes of replies handed to clients so far.
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.board.bytes_to_client.load(Ordering::Relaxed)
    }

    /// Replies lost so far, those that deaf connections lose included.
    pub fn replies_swallowed(&self) -> u64 {
        self.shared.board.replies_swallowed.load(Ordering::Relaxed)
    }

    fn door(&self) -> MutexGuard<'_, Option<Door>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.refuse_connections();
        self.cut();
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultProxy({} to {})", self.address(), self.shared.target)
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Vec<OpenLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: TcpStream) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let mut lines = self.lines();
        lines.retain(|line| !line.is_over());
        match TcpStream::connect(self.target) {
            Ok(server) => lines.push(OpenLine::open(client, server, &self.board)),
            // Nobody at home. The kernel has already said yes on our behalf; the best we can do is to hang up.
            Err(_) => drop(client),
        }
    }
}

impl Door {
    fn open(listener: TcpListener, shared: Arc<Shared>) -> Self {
        let (listener, is_closing) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (door, closing) = (Arc::clone(&listener), Arc::clone(&is_closing));
        let thread = thread::spawn(move || {
            loop {
                let taken = door.accept();
                if closing.load(Ordering::Acquire) {
                    return;
                }
                match taken {
                    Ok((client, _)) => shared.take(client),
                    // The client has changed its mind already.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) => panic!("the proxy cannot take connections: {error}"),
                }
            }
        });
        Self { listener, is_closing, thread }
    }

    fn close(self) {
        self.is_closing.store(true, Ordering::Release);
        // Wakes the thread. And closing alone would not do: while another test starts a process, that process holds a
        // copy of the socket for a moment, and the kernel would go on welcoming clients.
        rustix::net::shutdown(&self.listener, Shutdown::Both).expect("a socket that listens");
        let _ = self.thread.join();
    }
}
