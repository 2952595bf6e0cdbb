//! Random pauses, so that clients which lost a server together do not return together.

use std::time::Duration;

use fastrand::Rng;

/// A generator of pauses; not for secrets.
#[derive(Clone, Debug)]
pub(super) struct Random(Rng);

impl Random {
    /// Seeded differently in every process and for every caller.
    pub(super) fn new() -> Self {
        Self(Rng::new())
    }

    #[cfg(test)]
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A duration from `low` to `high`, both included, in whole microseconds.
    pub(super) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let width = u64::try_from(high.saturating_sub(low).as_micros()).unwrap_or(u64::MAX);
        low + Duration::from_micros(self.0.u64(0..=width))
    }
}
