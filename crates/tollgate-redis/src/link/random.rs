//! Enough chance to keep clients from acting in step. Nothing secret hangs on it, so twelve lines do.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Different in every process and for every caller: the standard library's hash keys come from the system.
    pub(super) fn new() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    #[cfg(test)]
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Anything from `low` to `high`.
    pub(super) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_micros()).unwrap_or(u64::MAX);
        low + Duration::from_micros(self.next() % span.saturating_add(1).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
