//! What a store has done so far, counted where it is done.

use std::ops::AddAssign;

use tollgate_core::Verdict;

/// Totals since the store was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that were let through, peeks and other verbs included.
    pub allowed: u64,
    /// Requests that were refused.
    pub denied: u64,
    /// Requests that outweighed their limit.
    pub never: u64,
    /// Decisions made for keys that found no room, counted together with their like.
    pub overflowed: u64,
    /// Keys let go because they were as good as new.
    pub expired: u64,
    /// Keys let go before that, to stay within the budget. Each may be admitted what it had used once more.
    pub evicted: u64,
}

impl Stats {
    #[inline]
    pub(crate) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Allow { .. } => self.allowed += 1,
            Verdict::Deny { .. } => self.denied += 1,
            Verdict::Never => self.never += 1,
        }
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.never += other.never;
        self.overflowed += other.overflowed;
        self.expired += other.expired;
        self.evicted += other.evicted;
    }
}
