//! Manual clock: moves only when it is set, for tests and simulations with any store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::time::{Span, Timestamp};

/// A clock that changes only when it is set or advanced. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// Starts at this instant.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Arc::new(AtomicU64::new(now.as_micros())) }
    }

    /// Jumps to an instant, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves forward.
    pub fn advance(&self, span: impl Into<Duration>) {
        self.now.fetch_add(Span::from_duration(span.into()).as_micros(), Ordering::SeqCst);
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_time() {
        let clock = ManualClock::at(Timestamp::from_micros(5));
        let same = clock.clone();
        clock.advance(Span::from_micros(2));
        assert_eq!(same.now(), Timestamp::from_micros(7));
        same.set(Timestamp::from_micros(1));
        assert_eq!(clock.now(), Timestamp::from_micros(1));
    }
}
