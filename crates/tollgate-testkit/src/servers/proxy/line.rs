//! One connection through the proxy: three threads that carry bytes.
//!
//! ```text
//! client ──▶ requests ──▶ server
//! client ◀── delivery ◀── (due, bytes) ◀── replies ◀── server
//! ```
//!
//! Replies take two threads so that a delayed one does not hold up the reading of the next.

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
    frames::Frames,
    switches::{Fate, Switchboard},
};

/// A connection and the threads that serve it.
pub(super) struct OpenLine {
    line: Arc<Line>,
    threads: [JoinHandle<()>; 3],
}

struct Line {
    client: TcpStream,
    server: TcpStream,
    is_over: AtomicBool,
    board: Arc<Switchboard>,
}

/// Part of a reply on its way to the client.
struct Parcel {
    due: Instant,
    bytes: Vec<u8>,
    then_cut: bool,
}

impl OpenLine {
    pub(super) fn open(client: TcpStream, server: TcpStream, board: &Arc<Switchboard>) -> Self {
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a TCP stream");
        }
        let line = Arc::new(Line { client, server, is_over: AtomicBool::new(false), board: Arc::clone(board) });
        let (parcels, delivery) = mpsc::channel();
        let on_thread = |work: Box<dyn FnOnce(&Line) + Send>| {
            let line = Arc::clone(&line);
            thread::spawn(move || work(&line))
        };
        let threads = [
            on_thread(Box::new(Line::carry_requests)),
            on_thread(Box::new(move |line| line.collect_replies(&parcels))),
            on_thread(Box::new(move |line| line.deliver_replies(&delivery))),
        ];
        Self { line, threads }
    }

    /// Both ends have hung up and nothing is on its way.
    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn cut(self) {
        self.line.close();
        self.join();
    }

    pub(super) fn reset(self) {
        // Taking a connected socket's peer away makes the kernel send a reset at once, whoever else holds the socket.
        // It fails if the client has gone already, which will do as well.
        let _ = rustix::net::connect_unspec(&self.line.client);
        self.line.close();
        self.join();
    }

    fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl Line {
    fn carry_requests(&self) {
        let is_over = self.each_chunk(&self.client, |bytes| {
            self.board.wait_for_passage(|| self.is_over());
            self.hand_over(&self.server, bytes, &self.board.bytes_to_server)
        });
        match is_over {
            Ok(()) => drop(self.server.shutdown(Shutdown::Write)),
            Err(_) => self.close(),
        }
    }

    fn collect_replies(&self, parcels: &Sender<Parcel>) {
        let mut frames = Frames::new();
        let mut fate = None;
        let mut is_deaf = false;
        let collected = self.each_chunk(&self.server, |mut bytes| {
            while !bytes.is_empty() {
                let decided = fate.unwrap_or_else(|| self.board.fate(is_deaf));
                let (length, is_whole) = frames.take(bytes);
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                fate = (!is_whole).then_some(decided);
                match decided {
                    Fate::Forward => self.post(parcels, part, false)?,
                    Fate::Swallow => {
                        is_deaf = true;
                        self.board.replies_swallowed.fetch_add(u64::from(is_whole), Ordering::Relaxed);
                    }
                    Fate::CutAfter(left) if left <= part.len() || is_whole => {
                        // A reply shorter than asked for is cut where it ends.
                        self.post(parcels, &part[..left.min(part.len())], true)?;
                        is_deaf = true;
                        fate = (!is_whole).then_some(Fate::Swallow);
                    }
                    Fate::CutAfter(left) => {
                        self.post(parcels, part, false)?;
                        fate = Some(Fate::CutAfter(left - part.len()));
                    }
                }
            }
            Ok(())
        });
        if collected.is_err() {
            self.close();
        }
    }

    fn deliver_replies(&self, delivery: &Receiver<Parcel>) {
        for Parcel { due, bytes, then_cut } in delivery {
            self.board.wait_until_due(due, || self.is_over());
            self.board.wait_for_passage(|| self.is_over());
            if self.hand_over(&self.client, &bytes, &self.board.bytes_to_client).is_err() || then_cut {
                return self.close();
            }
        }
        // The server has hung up, and everything it said has been passed on.
        let _ = self.client.shutdown(Shutdown::Write);
    }

    fn post(&self, parcels: &Sender<Parcel>, bytes: &[u8], then_cut: bool) -> io::Result<()> {
        let parcel = Parcel { due: self.board.due(), bytes: bytes.into(), then_cut };
        parcels.send(parcel).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Reads until the other side hangs up.
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

    /// Counted before they are written: whoever holds a reply must find it counted.
    fn hand_over(&self, mut to: &TcpStream, bytes: &[u8], counter: &AtomicU64) -> io::Result<()> {
        if self.is_over() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        to.write_all(bytes)
    }

    /// Ends both connections and wakes the threads, whatever they wait for.
    fn close(&self) {
        self.board.turn(|_| self.is_over.store(true, Ordering::Release));
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}
