//! Lingering close: after the last write, read and discard until EOF, so that the peer receives the response.
//!
//! Closing a socket with unread bytes resets the connection, and the reset overtakes the response: a client that sends
//! too much would see a broken pipe instead of the error. So the write side is shut down first, and the rest of the
//! input is discarded. Bound: 1 s and 16 MiB.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::ReadBuf,
    time::{Sleep, sleep},
};

use super::transport::Duplex;

/// The closing of one connection.
#[derive(Debug)]
pub(super) struct LingeringClose {
    is_write_shut_down: bool,
    timer: Pin<Box<Sleep>>,
    /// Bytes that may still be discarded.
    budget: usize,
}

impl LingeringClose {
    pub(super) fn new() -> Self {
        Self { is_write_shut_down: false, timer: Box::pin(sleep(MAX_TIME)), budget: MAX_BYTES }
    }

    /// Ready when the stream can be dropped.
    pub(super) fn poll(&mut self, mut stream: Pin<&mut dyn Duplex>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_write_shut_down {
            match stream.as_mut().poll_shutdown(cx) {
                Poll::Ready(result) => result?,
                // TLS sends a close_notify; a peer that does not read it is waited for until the timer fires.
                Poll::Pending => return self.timer.as_mut().poll(cx).map(Ok),
            }
            self.is_write_shut_down = true;
        }
        let mut piece = [0; PIECE_BYTES];
        while self.budget > 0 && self.timer.as_mut().poll(cx).is_pending() {
            let mut discarded = ReadBuf::new(&mut piece);
            match ready!(stream.as_mut().poll_read(cx, &mut discarded)) {
                Ok(()) if !discarded.filled().is_empty() => {
                    self.budget = self.budget.saturating_sub(discarded.filled().len());
                }
                // EOF, or the peer has reset the connection.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A client that reads has received the response by then.
const MAX_TIME: Duration = Duration::from_secs(1);
/// More than is in flight on a fast connection with a high latency.
const MAX_BYTES: usize = 16 << 20;
const PIECE_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests;
