//! Counters of what a store did to stay within its byte budget.
//!
//! Decisions are not counted; the caller sees every one of them.

use std::ops::AddAssign;

/// Totals since the store was created.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Decisions on keys for which there was no room.
    pub overflowed: u64,
    /// Those of them that were admitted without being counted: see [`WhenFull::Admit`](crate::WhenFull::Admit).
    pub unenforced: u64,
    /// Keys removed because they were back to their initial state.
    pub expired: u64,
    /// Keys evicted before that, to stay within the budget. Each starts again with a full quota.
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
