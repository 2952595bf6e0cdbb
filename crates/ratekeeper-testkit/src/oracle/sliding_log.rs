//! Oracle for the sliding log: at most `limit` permits in every window, counted over all admissions.
//!
//! Admissions in `(x − window, x]` count at x; one that is exactly one window old does not. No request passes before a
//! reservation.

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

    /// The latest admission: no request passes before a reservation.
    fn last_start(&self) -> u64 {
        self.admitted.iter().map(|booking| booking.go).max().unwrap_or(0)
    }

    /// Permits in the window that ends at an instant.
    fn counted(&self, instant: u64) -> u64 {
        let inside = |booking: &&Booking| booking.go <= instant && booking.go + self.window > instant;
        self.admitted.iter().filter(inside).map(|booking| booking.cost).sum()
    }
}

impl Naive for SlidingLog {
    fn limit(&self) -> u64 {
        self.limit
    }

    /// Permits become free only when an entry leaves the window, so no other instant is tried.
    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let last_start = self.last_start();
        let leaving = self.admitted.iter().map(|booking| booking.go + self.window);
        let instants = leaving.chain([now, last_start]).filter(|&instant| instant >= now && instant >= last_start);
        instants.filter(|&instant| self.counted(instant) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.last_start() > now { 0 } else { self.limit - self.counted(now) }
    }

    fn reset_at(&self, now: u64) -> u64 {
        self.admitted.iter().map(|booking| booking.go + self.window).fold(now, u64::max)
    }
}
