//! Deadline of a wait for permits.

use std::time::Duration;

use ratekeeper_core::{Span, bounds::MAX_WAIT};
use tokio::time::Instant;

/// Start and timeout of a wait; no timeout waits up to [`MAX_WAIT`].
pub(crate) struct Deadline {
    began: Instant,
    pub(crate) timeout: Option<Duration>,
}

impl Deadline {
    /// A wait that begins now.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self { began: Instant::now(), timeout }
    }

    /// The time since the wait began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time left.
    pub(crate) fn left(&self) -> Span {
        match self.timeout {
            None => MAX_WAIT,
            Some(timeout) => Span::from_duration(timeout.saturating_sub(self.began.elapsed())).min(MAX_WAIT),
        }
    }

    /// By how much the deadline was missed. A wait that ends exactly at the deadline is in time. A round trip to the store
    /// that took the whole timeout is not. A zero timeout is a plain try and never misses it.
    pub(crate) fn missed_by(&self, waited: Span) -> Option<Duration> {
        let timeout = self.timeout.filter(|timeout| *timeout > Duration::ZERO)?;
        let over = self.began.elapsed().checked_sub(timeout)?;
        (over > Duration::ZERO || waited == Span::ZERO).then_some(over)
    }
}
