//! A bound on events per second, in one atomic word.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ratekeeper_core::Timestamp;

/// Counts events of the current second: the second in the upper bits, the count in the lower 32.
#[derive(Debug, Default)]
pub(crate) struct RateGate(AtomicU64);

impl RateGate {
    /// Whether fewer than this many events have passed in the second of `at`.
    #[inline]
    pub(crate) fn passes(&self, at: Timestamp, per_second: u32) -> bool {
        let second = (at.as_micros() / 1_000_000) << 32;
        let counted = |word: u64| word & u64::from(u32::MAX);
        let next = |word: u64| if word & !u64::from(u32::MAX) == second { word + 1 } else { second + 1 };
        let passes = |word: u64| counted(next(word)) <= u64::from(per_second);
        self.0.fetch_update(Relaxed, Relaxed, |word| passes(word).then(|| next(word))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_lets_its_number_pass() {
        let gate = RateGate::default();
        for second in [5, 6, 4] {
            let passed = (0..10).filter(|_| gate.passes(Timestamp::from_secs(second), 3)).count();
            assert_eq!(passed, 3, "second {second}");
        }
        assert!(!gate.passes(Timestamp::from_secs(9), 0));
    }
}
