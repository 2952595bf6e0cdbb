//! Oracle for the leaky bucket: a queue that drains `rate` permits every `per`.
//!
//! The history is reduced to one number: the time at which the queue is empty, in 1/`rate` µs. A request of `cost`
//! permits takes cost × per / rate to drain, after everything before it. The level is what has not drained, and may not
//! exceed the capacity. Without shaping, a request proceeds when there is room for it; shaped, when everything before it
//! has drained.

use super::{Booking, Naive, first_instant};

pub(super) struct LeakyBucket {
    /// The most permits at once.
    capacity: u64,
    /// Permits per period.
    rate: u64,
    per: u64,
    shaped: bool,
    admitted: Vec<Booking>,
}

impl LeakyBucket {
    pub(super) fn new(capacity: u64, rate: u64, per: u64, shaped: bool) -> Self {
        Self { capacity, rate, per, shaped, admitted: Vec::new() }
    }

    /// Time in which permits drain, in 1/`rate` µs.
    fn drain_time(&self, permits: u64) -> u128 {
        u128::from(permits) * u128::from(self.per)
    }

    /// An instant in 1/`rate` µs.
    fn scaled(&self, instant: u64) -> u128 {
        u128::from(instant) * u128::from(self.rate)
    }

    /// When everything admitted has drained, in 1/`rate` µs.
    fn empty_at(&self) -> u128 {
        self.admitted.iter().fold(0, |at, booking| at.max(self.scaled(booking.go)) + self.drain_time(booking.cost))
    }

    /// Time that the rest takes to drain at an instant, in 1/`rate` µs.
    fn level(&self, empty_at: u128, instant: u64) -> u128 {
        empty_at.saturating_sub(self.scaled(instant))
    }
}

impl Naive for LeakyBucket {
    fn limit(&self) -> u64 {
        self.capacity
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let (empty_at, room) = (self.empty_at(), self.drain_time(self.capacity));
        first_instant(now, |instant| self.level(empty_at, instant) + self.drain_time(cost) <= room)
    }

    fn go_at(&self, cost: u64, now: u64) -> u64 {
        let free_at = self.free_at(cost, now);
        if self.shaped { free_at.max(self.reset_at(now)) } else { free_at }
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let room = self.drain_time(self.capacity).saturating_sub(self.level(self.empty_at(), now));
        u64::try_from(room / u128::from(self.per)).unwrap()
    }

    fn reset_at(&self, now: u64) -> u64 {
        let empty_at = self.empty_at();
        first_instant(now, |instant| self.level(empty_at, instant) == 0)
    }
}
