//! Oracle for the token bucket: starts full, gains `rate` tokens every `per`, spends `cost` at once.
//!
//! Tokens are counted in parts, as [`Grid`] says. The history is
//! replayed in the order in which requests proceed. Before the last reservation proceeds, the tokens are those it leaves,
//! minus the refill until then: negative while there are reservations.

use super::{Booking, Naive, first_instant, grid::Grid};

pub(super) struct TokenBucket {
    /// The most permits at once.
    capacity: u64,
    grid: Grid,
    taken: Vec<Booking>,
}

impl TokenBucket {
    pub(super) fn new(capacity: u64, rate: u64, per: u64) -> Self {
        Self { capacity, grid: Grid::new(capacity, rate, per), taken: Vec::new() }
    }

    fn parts(&self, permits: u64) -> i128 {
        self.grid.parts(permits)
    }

    /// Parts gained in a span; negative if it runs backwards.
    fn refilled(&self, from: u64, until: u64) -> i128 {
        self.grid.by(until) - self.grid.by(from)
    }

    /// The time at which the last booking proceeds, and the tokens it leaves.
    fn after_last(&self) -> (u64, i128) {
        let full = self.parts(self.capacity);
        let (mut at, mut tokens) = (0, full);
        for taken in &self.taken {
            if taken.go > at {
                tokens = full.min(tokens + self.refilled(at, taken.go));
                at = taken.go;
            }
            tokens -= self.parts(taken.cost);
        }
        (at, tokens)
    }

    fn first_with(&self, permits: u64, now: u64) -> u64 {
        let (last, tokens) = self.after_last();
        first_instant(now, |instant| tokens + self.refilled(last, instant) >= self.parts(permits))
    }
}

impl Naive for TokenBucket {
    fn limit(&self) -> u64 {
        self.capacity
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        self.first_with(cost, now)
    }

    fn book(&mut self, booking: Booking) {
        self.taken.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let (last, tokens) = self.after_last();
        let tokens = self.parts(self.capacity).min(tokens + self.refilled(last, now));
        u64::try_from(tokens.max(0) / self.grid.parts(1)).unwrap()
    }

    fn reset_at(&self, now: u64) -> u64 {
        self.first_with(self.capacity, now)
    }
}
