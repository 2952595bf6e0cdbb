//! Stepwise token bucket: `lump` tokens every `per`, all at once, nothing in between.
//!
//! A full bucket has no ticks; the take that finds it full starts them. From there the clock is walked tick by tick.
//! While somebody waits in line the tokens are those left once they have gone, less the lumps still to come until then.

use super::{Booking, Naive, first_moment};

pub(super) struct Stepwise {
    capacity: i128,
    lump: i128,
    per: u64,
    taken: Vec<Booking>,
}

/// The bucket after everything booked so far.
#[derive(Clone, Copy)]
struct Bucket {
    /// Some tick, while the bucket is not full.
    tick: Option<u64>,
    /// The moment the tokens hold for: when the last one in line goes.
    at: u64,
    tokens: i128,
}

impl Stepwise {
    pub(super) fn new(capacity: u64, lump: u64, per: u64) -> Self {
        Self { capacity: capacity.into(), lump: lump.into(), per, taken: Vec::new() }
    }

    fn replay(&self) -> Bucket {
        let mut bucket = Bucket { tick: None, at: 0, tokens: self.capacity };
        for taken in &self.taken {
            bucket = self.walk(bucket, taken.asked);
            if bucket.tokens == self.capacity {
                bucket.tick = Some(taken.asked);
                bucket.at = taken.asked;
            }
            // The ticks go on until the request goes, whether or not the bucket has room for what they bring.
            let ticks = bucket.tick;
            bucket = Bucket { tick: ticks, ..self.walk(bucket, taken.go) };
            bucket.tokens -= i128::from(taken.cost);
        }
        bucket
    }

    /// Lets every tick after `bucket.at` and up to `moment` happen, until the bucket is full.
    fn walk(&self, mut bucket: Bucket, moment: u64) -> Bucket {
        let Some(tick) = bucket.tick else { return bucket };
        while let next = self.next_tick(tick, bucket.at)
            && next <= moment
            && bucket.tokens < self.capacity
        {
            bucket.tokens = self.capacity.min(bucket.tokens + self.lump);
            bucket.at = next;
        }
        bucket.at = bucket.at.max(moment);
        bucket
    }

    fn next_tick(&self, tick: u64, after: u64) -> u64 {
        after + self.per - (after - tick) % self.per
    }

    fn tokens(&self, bucket: Bucket, moment: u64) -> i128 {
        match bucket.tick {
            Some(tick) if moment < bucket.at => {
                // Between now and then these lumps are still to come.
                let ticks_by = |moment: u64| i128::from((moment.max(tick) - tick) / self.per);
                bucket.tokens - self.lump * (ticks_by(bucket.at) - ticks_by(moment))
            }
            _ => self.walk(bucket, moment).tokens,
        }
    }

    fn first_with(&self, tokens: i128, now: u64) -> u64 {
        let bucket = self.replay();
        first_moment(now, |moment| self.tokens(bucket, moment) >= tokens)
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

    fn rests_at(&self, now: u64) -> u64 {
        self.first_with(self.capacity, now)
    }
}
