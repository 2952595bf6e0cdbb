//! Fault proxy: a TCP proxy between a client and its server that injects network faults.
//!
//! It injects only faults that occur in networks. In particular, a connection that has lost one reply carries no further
//! reply, because TCP does not lose data in the middle of a stream. Such a connection is *deaf* until it is closed; new
//! connections work.
//!
//! Replies are separated by the framing of RESP, those to `HELLO` and `CLIENT SETINFO` included. For other protocols, use
//! only faults that do not count replies.

mod connection;
mod faults;
mod frames;

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
    connection::OpenConnection,
    faults::{Swallow, Switchboard},
};
use super::ports;

/// A proxy on a free port. Faults take effect at once, also on connections that are open. Its threads end when
/// it is dropped.
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    /// `None` while connections are refused.
    acceptor: Mutex<Option<Acceptor>>,
}

/// State shared by the handle and the threads.
struct Shared {
    target: SocketAddr,
    board: Arc<Switchboard>,
    connections: Mutex<Vec<OpenConnection>>,
    accepted: AtomicU64,
}

/// The accept thread.
struct Acceptor {
    listener: Arc<TcpListener>,
    is_closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy that forwards everything to this address until a fault is set.
    #[track_caller]
    pub fn to(target: impl ToSocketAddrs) -> Self {
        let target = target.to_socket_addrs().ok().and_then(|mut found| found.next()).expect("an address");
        let (listener, port) = ports::listen();
        let connections = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { target, board: Arc::default(), connections, accepted: AtomicU64::new(0) });
        let acceptor = Mutex::new(Some(Acceptor::open(listener, Arc::clone(&shared))));
        Self { port, shared, acceptor }
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

    /// Removes all faults and accepts connections. Deaf connections stay deaf.
    #[track_caller]
    pub fn pass(&self) {
        self.shared.board.change(|faults| *faults = Default::default());
        let mut acceptor = self.acceptor();
        if acceptor.is_none() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).expect("the port of the proxy is free");
            *acceptor = Some(Acceptor::open(listener, Arc::clone(&self.shared)));
        }
    }

    /// Forwards requests and drops all replies.
    pub fn swallow_replies(&self) {
        self.shared.board.change(|faults| faults.swallow = Swallow::All);
    }

    /// Drops the next `count` replies, on any connection. Connections that lose none are unaffected.
    pub fn swallow_next_replies(&self, count: u64) {
        self.shared.board.change(|faults| faults.swallow = Swallow::Next(count));
    }

    /// Delays every reply, without delaying the following ones further.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.board.change(|faults| faults.delay = delay);
    }

    /// Holds traffic in both directions. It arrives after [`Self::pass`], as TCP's retransmissions do when a network
    /// recovers. Connecting still works, because the kernel accepts connections.
    pub fn blackhole(&self) {
        self.shared.board.change(|faults| faults.is_blackhole = true);
    }

    /// Closes the connection of the next reply after this many bytes of it.
    pub fn cut_next_reply_after(&self, bytes: usize) {
        self.shared.board.change(|faults| faults.cut_after = Some(bytes));
    }

    /// The kernel refuses new connections, as without a listener. Open ones stay open.
    pub fn refuse_connections(&self) {
        if let Some(acceptor) = self.acceptor().take() {
            acceptor.close();
        }
    }

    /// Closes all connections (FIN).
    pub fn cut(&self) {
        self.shared.connections().drain(..).for_each(OpenConnection::cut);
    }

    /// Resets all connections (RST).
    pub fn reset(&self) {
        self.shared.connections().drain(..).for_each(OpenConnection::reset);
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Bytes of requests forwarded so far.
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.board.bytes_to_server.load(Ordering::Relaxed)
    }

    /// Bytes of replies forwarded so far.
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.board.bytes_to_client.load(Ordering::Relaxed)
    }

    /// Replies dropped so far, those on deaf connections included.
    pub fn replies_swallowed(&self) -> u64 {
        self.shared.board.replies_swallowed.load(Ordering::Relaxed)
    }

    fn acceptor(&self) -> MutexGuard<'_, Option<Acceptor>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn connections(&self) -> MutexGuard<'_, Vec<OpenConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, client: TcpStream) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let mut connections = self.connections();
        connections.retain(|connection| !connection.is_over());
        match TcpStream::connect(self.target) {
            Ok(server) => connections.push(OpenConnection::open(client, server, &self.board)),
            // There is no server. The kernel has accepted the connection already, so it is closed.
            Err(_) => drop(client),
        }
    }
}

impl Acceptor {
    fn open(listener: TcpListener, shared: Arc<Shared>) -> Self {
        let (listener, is_closing) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (acceptor, closing) = (Arc::clone(&listener), Arc::clone(&is_closing));
        let thread = thread::spawn(move || {
            loop {
                let accepted = acceptor.accept();
                if closing.load(Ordering::Acquire) {
                    return;
                }
                match accepted {
                    Ok((client, _)) => shared.accept(client),
                    // The client closed before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) => panic!("the proxy cannot accept connections: {error}"),
                }
            }
        });
        Self { listener, is_closing, thread }
    }

    fn close(self) {
        self.is_closing.store(true, Ordering::Release);
        // Wakes the thread. Closing the socket would not be enough: a process that another test is starting may hold a copy of
        // it for a moment, and the kernel would accept connections meanwhile.
        rustix::net::shutdown(&self.listener, Shutdown::Both).expect("a listening socket");
        let _ = self.thread.join();
    }
}
