//! Idle timeout: ends a connection without traffic.
//!
//! The first byte has its own time limit, later ones another. Once the first byte has been received, writes count as
//! traffic too; before it they do not, since the peer may not be there at all.
//!
//! Traffic only moves `deadline`. The timer itself is moved when it fires before the deadline, so a read or write costs
//! no timer operation.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// The timer of one connection.
#[derive(Debug)]
pub(super) struct IdleTimeout {
    idle: Duration,
    has_received: bool,
    timer: Pin<Box<Sleep>>,
    /// When the connection expires; the timer fires then or earlier.
    deadline: Instant,
}

impl IdleTimeout {
    /// `first_byte` until the first byte is received, then `idle` without traffic.
    pub(super) fn new(first_byte: Duration, idle: Duration) -> Self {
        Self { idle, has_received: false, timer: Box::pin(sleep(first_byte)), deadline: Instant::now() + first_byte }
    }

    /// A read has completed.
    pub(super) fn received(&mut self) {
        self.has_received = true;
        self.restart();
    }

    /// A write has completed.
    pub(super) fn sent(&mut self) {
        if self.has_received {
            self.restart();
        }
    }

    /// Ready once the connection has been idle for too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }

    fn restart(&mut self) {
        self.deadline = Instant::now() + self.idle;
        // The time limit of the first byte may exceed the idle time.
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        }
    }
}
