//! Sliding counter: admissions grouped into slices aligned to the epoch; a slice counts while any of it is in the
//! window.
//!
//! A slice is one `buckets`-th of the window, rounded up. At a moment x, a slice that ends at e still overlaps the
//! window while e > x − window. Nobody goes before the slice of those who wait.

use super::{Booking, Naive, first_moment};

pub(super) struct SlidingCounter {
    limit: u64,
    window: u64,
    slice: u64,
    admitted: Vec<Booking>,
}

impl SlidingCounter {
    pub(super) fn new(limit: u64, window: u64, buckets: u64) -> Self {
        // The shortest slice with which so many of them cover the window.
        let slice = first_moment(1, |slice| slice * buckets >= window);
        Self { limit, window, slice, admitted: Vec::new() }
    }

    fn slice_end(&self, booking: &Booking) -> u64 {
        (booking.go / self.slice + 1) * self.slice
    }

    /// Where the last slice spoken for begins.
    fn line(&self) -> u64 {
        self.admitted.iter().map(|booking| self.slice_end(booking) - self.slice).max().unwrap_or(0)
    }

    /// Permits whose slice still overlaps the window at a moment.
    fn counted(&self, moment: u64) -> u64 {
        let overlapping = |booking: &&Booking| self.slice_end(booking) + self.window > moment;
        self.admitted.iter().filter(overlapping).map(|booking| booking.cost).sum()
    }
}

impl Naive for SlidingCounter {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let line = self.line();
        let leaving = self.admitted.iter().map(|booking| self.slice_end(booking) + self.window);
        let moments = leaving.chain([now, line]).filter(|&moment| moment >= now && moment >= line);
        moments.filter(|&moment| self.counted(moment) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.line() > now { 0 } else { self.limit.saturating_sub(self.counted(now)) }
    }

    fn rests_at(&self, now: u64) -> u64 {
        self.admitted.iter().map(|booking| self.slice_end(booking) + self.window).fold(now, u64::max)
    }
}
