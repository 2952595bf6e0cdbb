//! Sliding log: at most `limit` permits in every window, counted by looking at every admission there ever was.
//!
//! What went in `(x − window, x]` counts at x; what is exactly one window old does not. Nobody goes before those who
//! wait.

use super::{Booking, Naive};

pub(super) struct SlidingLog {
    limit: u64,
    window: u64,
    admitted: Vec<Booking>,
}

impl SlidingLog {
    pub(super) fn new(limit: u64, window: u64) -> Self {
        Self { limit, window, admitted: Vec::new() }
    }

    fn line(&self) -> u64 {
        self.admitted.iter().map(|booking| booking.go).max().unwrap_or(0)
    }

    /// Permits in the window that ends with a moment.
    fn counted(&self, moment: u64) -> u64 {
        let inside = |booking: &&Booking| booking.go <= moment && booking.go + self.window > moment;
        self.admitted.iter().filter(inside).map(|booking| booking.cost).sum()
    }
}

impl Naive for SlidingLog {
    fn limit(&self) -> u64 {
        self.limit
    }

    /// Room only ever comes when an entry leaves, so no other moment needs to be tried.
    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let line = self.line();
        let leaving = self.admitted.iter().map(|booking| booking.go + self.window);
        let moments = leaving.chain([now, line]).filter(|&moment| moment >= now && moment >= line);
        moments.filter(|&moment| self.counted(moment) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.line() > now { 0 } else { self.limit - self.counted(now) }
    }

    fn rests_at(&self, now: u64) -> u64 {
        self.admitted.iter().map(|booking| booking.go + self.window).fold(now, u64::max)
    }
}
