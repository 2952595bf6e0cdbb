//! One proxied connection: three threads that forward bytes.
//!
//! ```text
//! client ──▶ requests ──▶ server
//! client ◀── delivery ◀── (due, bytes) ◀── replies ◀── server
//! ```
//!
//! Replies take two threads, so that the next reply is read while one is delayed.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use super::{
    faults::{ReplyAction, Switchboard},
    frames::Frames,
};

/// A connection and the threads that serve it.
pub(super) struct OpenConnection {
    connection: Arc<ProxiedConnection>,
    threads: [JoinHandle<()>; 3],
}

struct ProxiedConnection {
    client: TcpStream,
    server: TcpStream,
    is_over: AtomicBool,
    board: Arc<Switchboard>,
}

/// Part of a reply, with the time of its delivery.
struct Delivery {
    due: Instant,
    bytes: Vec<u8>,
    then_cut: bool,
}

impl OpenConnection {
    pub(super) fn open(client: TcpStream, server: TcpStream, board: &Arc<Switchboard>) -> Self {
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a TCP stream");
        }
        let connection =
            Arc::new(ProxiedConnection { client, server, is_over: AtomicBool::new(false), board: Arc::clone(board) });
        let (sender, receiver) = mpsc::channel();
        let on_thread = |work: Box<dyn FnOnce(&ProxiedConnection) + Send>| {
            let connection = Arc::clone(&connection);
            thread::spawn(move || work(&connection))
        };
        let threads = [
            on_thread(Box::new(ProxiedConnection::forward_requests)),
            on_thread(Box::new(move |connection| connection.collect_replies(&sender))),
            on_thread(Box::new(move |connection| connection.deliver_replies(&receiver))),
        ];
        Self { connection, threads }
    }

    /// Whether both ends are closed and everything is delivered.
    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn cut(self) {
        self.connection.close();
        self.join();
    }

    pub(super) fn reset(self) {
        // Dissolving the association of a connected socket makes the kernel send RST at once, even if another process holds a
        // copy of it. It fails if the client has closed the connection, which ends it too.
        let _ = rustix::net::connect_unspec(&self.connection.client);
        self.connection.close();
        self.join();
    }

    fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl ProxiedConnection {
    fn forward_requests(&self) {
        let is_over = self.each_chunk(&self.client, |bytes| {
            self.board.wait_for_passage(|| self.is_over());
            self.forward(&self.server, bytes, &self.board.bytes_to_server)
        });
        match is_over {
            Ok(()) => drop(self.server.shutdown(Shutdown::Write)),
            Err(_) => self.close(),
        }
    }

    fn collect_replies(&self, sender: &Sender<Delivery>) {
        let mut frames = Frames::new();
        let mut action = None;
        let mut is_deaf = false;
        let collected = self.each_chunk(&self.server, |mut bytes| {
            while !bytes.is_empty() {
                let decided = action.unwrap_or_else(|| self.board.action(is_deaf));
                let (length, is_whole) = frames.take(bytes);
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                action = (!is_whole).then_some(decided);
                match decided {
                    ReplyAction::Forward => self.post(sender, part, false)?,
                    ReplyAction::Swallow => {
                        is_deaf = true;
                        self.board.replies_swallowed.fetch_add(u64::from(is_whole), Ordering::Relaxed);
                    }
                    ReplyAction::CutAfter(left) if left <= part.len() || is_whole => {
                        // A shorter reply is delivered whole.
                        self.post(sender, &part[..left.min(part.len())], true)?;
                        is_deaf = true;
                        action = (!is_whole).then_some(ReplyAction::Swallow);
                    }
                    ReplyAction::CutAfter(left) => {
                        self.post(sender, part, false)?;
                        action = Some(ReplyAction::CutAfter(left - part.len()));
                    }
                }
            }
            Ok(())
        });
        if collected.is_err() {
            self.close();
        }
    }

    fn deliver_replies(&self, receiver: &Receiver<Delivery>) {
        for Delivery { due, bytes, then_cut } in receiver {
            self.board.wait_until_due(due, || self.is_over());
            self.board.wait_for_passage(|| self.is_over());
            if self.forward(&self.client, &bytes, &self.board.bytes_to_client).is_err() || then_cut {
                return self.close();
            }
        }
        // The server has closed the connection, and all its replies are delivered.
        let _ = self.client.shutdown(Shutdown::Write);
    }

    fn post(&self, sender: &Sender<Delivery>, bytes: &[u8], then_cut: bool) -> io::Result<()> {
        let delivery = Delivery { due: self.board.due(), bytes: bytes.into(), then_cut };
        sender.send(delivery).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Reads until the peer closes its side.
    fn each_chunk(&self, mut from: &TcpStream, mut use_chunk: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => use_chunk(&buffer[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes bytes. They are counted first, so that a received reply has been counted.
    fn forward(&self, mut to: &TcpStream, bytes: &[u8], counter: &AtomicU64) -> io::Result<()> {
        if self.is_over() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        to.write_all(bytes)
    }

    /// Closes both connections and wakes the threads.
    fn close(&self) {
        self.board.change(|_| self.is_over.store(true, Ordering::Release));
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}
