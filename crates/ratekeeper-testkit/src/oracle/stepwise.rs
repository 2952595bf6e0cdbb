//! Oracle for the stepwise token bucket: `lump` tokens every `per`, at once.
//!
//! A full bucket has no ticks; the take that finds it full starts them. From there the ticks are replayed one by one.
//! While there are reservations, the tokens are those left after the last of them, minus the lumps due until then.

use super::{Booking, Naive, first_instant};

pub(super) struct Stepwise {
    capacity: i128,
    lump: i128,
    per: u64,
    taken: Vec<Booking>,
}

/// The bucket after all bookings.
#[derive(Clone, Copy)]
struct TokenState {
    /// Some tick, while the bucket is not full.
    tick: Option<u64>,
    /// The instant to which `tokens` refers: when the last booking proceeds.
    at: u64,
    tokens: i128,
}

impl Stepwise {
    pub(super) fn new(capacity: u64, lump: u64, per: u64) -> Self {
        Self { capacity: capacity.into(), lump: lump.into(), per, taken: Vec::new() }
    }

    fn replay(&self) -> TokenState {
        let mut bucket = TokenState { tick: None, at: 0, tokens: self.capacity };
        for taken in &self.taken {
            bucket = self.advance(bucket, taken.asked);
            if bucket.tokens == self.capacity {
                bucket.tick = Some(taken.asked);
                bucket.at = taken.asked;
            }
            // The ticks continue until the request proceeds, even if the bucket is full.
            let ticks = bucket.tick;
            bucket = TokenState { tick: ticks, ..self.advance(bucket, taken.go) };
            bucket.tokens -= i128::from(taken.cost);
        }
        bucket
    }

    /// Applies every tick after `bucket.at` and up to `instant`, until the bucket is full.
    fn advance(&self, mut bucket: TokenState, instant: u64) -> TokenState {
        let Some(tick) = bucket.tick else { return bucket };
        while let next = self.next_tick(tick, bucket.at)
            && next <= instant
            && bucket.tokens < self.capacity
        {
            bucket.tokens = self.capacity.min(bucket.tokens + self.lump);
            bucket.at = next;
        }
        bucket.at = bucket.at.max(instant);
        bucket
    }

    fn next_tick(&self, tick: u64, after: u64) -> u64 {
        after + self.per - (after - tick) % self.per
    }

    fn tokens(&self, bucket: TokenState, instant: u64) -> i128 {
        match bucket.tick {
            Some(tick) if instant < bucket.at => {
                // The lumps due between `instant` and `bucket.at`.
                let ticks_by = |instant: u64| i128::from((instant.max(tick) - tick) / self.per);
                bucket.tokens - self.lump * (ticks_by(bucket.at) - ticks_by(instant))
            }
            _ => self.advance(bucket, instant).tokens,
        }
    }

    fn first_with(&self, tokens: i128, now: u64) -> u64 {
        let bucket = self.replay();
        first_instant(now, |instant| self.tokens(bucket, instant) >= tokens)
    }
}

impl Naive for Stepwise {
    fn limit(&self) -> u64 {
        u64::try_from(self.capacity).unwrap()
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        self.first_with(cost.into(), now)
    }

    fn book(&mut self, booking: Booking) {
        self.taken.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        u64::try_from(self.tokens(self.replay(), now).max(0)).unwrap()
    }

    fn reset_at(&self, now: u64) -> u64 {
        self.first_with(self.capacity, now)
    }
}
