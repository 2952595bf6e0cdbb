//! Oracle for the sliding counter: admissions grouped into slices aligned to the epoch. A slice counts while any of
//! it is in the window.
//!
//! A slice is one `buckets`-th of the window, rounded up. At an instant x, a slice that ends at e still overlaps the
//! window while e > x − window. No request passes before the slice of a reservation.

use super::{Booking, Naive, first_instant};

pub(super) struct SlidingCounter {
    limit: u64,
    window: u64,
    slice: u64,
    admitted: Vec<Booking>,
}

impl SlidingCounter {
    pub(super) fn new(limit: u64, window: u64, buckets: u64) -> Self {
        // The shortest slice such that `buckets` of them cover the window.
        let slice = first_instant(1, |slice| slice * buckets >= window);
        Self { limit, window, slice, admitted: Vec::new() }
    }

    fn slice_end(&self, booking: &Booking) -> u64 {
        (booking.go / self.slice + 1) * self.slice
    }

    /// The start of the last slice with an admission.
    fn last_start(&self) -> u64 {
        self.admitted.iter().map(|booking| self.slice_end(booking) - self.slice).max().unwrap_or(0)
    }

    /// Permits whose slice overlaps the window at an instant.
    fn counted(&self, instant: u64) -> u64 {
        let overlapping = |booking: &&Booking| self.slice_end(booking) + self.window > instant;
        self.admitted.iter().filter(overlapping).map(|booking| booking.cost).sum()
    }
}

impl Naive for SlidingCounter {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let last_start = self.last_start();
        let leaving = self.admitted.iter().map(|booking| self.slice_end(booking) + self.window);
        let instants = leaving.chain([now, last_start]).filter(|&instant| instant >= now && instant >= last_start);
        instants.filter(|&instant| self.counted(instant) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.last_start() > now { 0 } else { self.limit.saturating_sub(self.counted(now)) }
    }

    fn reset_at(&self, now: u64) -> u64 {
        self.admitted.iter().map(|booking| self.slice_end(booking) + self.window).fold(now, u64::max)
    }
}
