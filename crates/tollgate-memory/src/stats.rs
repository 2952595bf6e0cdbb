//! What a store has done to stay within its budget, counted where it is done.
//!
//! Decisions are not counted here: whoever asks knows the answers.

use std::ops::AddAssign;

/// Totals since the store was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Decisions made for keys that found no room, counted together with their like.
    pub overflowed: u64,
    /// Those of them that were admitted without being counted: see [`WhenFull::Admit`](crate::WhenFull::Admit).
    pub unenforced: u64,
    /// Keys let go because they were as good as new.
    pub expired: u64,
    /// Keys let go before that, to stay within the budget. Each may be admitted what it had used once more.
    pub evicted: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.overflowed += other.overflowed;
        self.unenforced += other.unenforced;
        self.expired += other.expired;
        self.evicted += other.evicted;
    }
}
