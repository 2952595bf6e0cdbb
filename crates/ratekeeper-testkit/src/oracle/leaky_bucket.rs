//! Oracle for the leaky bucket: a queue that drains `rate` permits every `per`.
//!
//! The history is reduced to one number: how many parts (see [`Grid`]) must have drained since the epoch for the queue to
//! be empty. A request drains after everything before it. The level is what has not drained, and may not exceed the
//! capacity. Without shaping, a request proceeds when there is room for it; shaped, when everything before it has drained.

use super::{Booking, Naive, first_instant, grid::Grid};

pub(super) struct LeakyBucket {
    /// The most permits at once.
    capacity: u64,
    grid: Grid,
    shaped: bool,
    admitted: Vec<Booking>,
}

impl LeakyBucket {
    pub(super) fn new(capacity: u64, rate: u64, per: u64, shaped: bool) -> Self {
        Self { capacity, grid: Grid::new(capacity, rate, per), shaped, admitted: Vec::new() }
    }

    /// Parts that have drained since the epoch when everything admitted has.
    fn empty_at(&self) -> i128 {
        let drains = |at: i128, booking: &Booking| at.max(self.grid.by(booking.go)) + self.grid.parts(booking.cost);
        self.admitted.iter().fold(0, drains)
    }

    /// Parts that have not drained at an instant.
    fn level(&self, empty_at: i128, instant: u64) -> i128 {
        (empty_at - self.grid.by(instant)).max(0)
    }
}

impl Naive for LeakyBucket {
    fn limit(&self) -> u64 {
        self.capacity
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let (empty_at, room) = (self.empty_at(), self.grid.parts(self.capacity));
        first_instant(now, |instant| self.level(empty_at, instant) + self.grid.parts(cost) <= room)
    }

    fn go_at(&self, cost: u64, now: u64) -> u64 {
        let free_at = self.free_at(cost, now);
        if self.shaped { free_at.max(self.reset_at(now)) } else { free_at }
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let room = self.grid.parts(self.capacity) - self.level(self.empty_at(), now);
        u64::try_from(room.max(0) / self.grid.parts(1)).unwrap()
    }

    fn reset_at(&self, now: u64) -> u64 {
        let empty_at = self.empty_at();
        first_instant(now, |instant| self.level(empty_at, instant) == 0)
    }
}
