//! Leaky bucket: a queue of drops that fall one after another, `rate` every `per`.
//!
//! The history becomes one number: when the last drop will have fallen, as a fraction in 1/`rate` µs. A request of
//! `cost` drops keeps the outlet busy for cost × per / rate after its turn has come. The water is what has not
//! fallen yet, and may not rise above the capacity. As a meter, a request goes when there is room for it; shaped, when
//! everything ahead of it has fallen.

use super::{Booking, Naive, first_moment};

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

    /// How long so many drops take to fall, in 1/`rate` µs.
    fn falling(&self, drops: u64) -> u128 {
        u128::from(drops) * u128::from(self.per)
    }

    fn instant(&self, moment: u64) -> u128 {
        u128::from(moment) * u128::from(self.rate)
    }

    /// When the outlet is done with everything admitted.
    fn dry(&self) -> u128 {
        self.admitted.iter().fold(0, |dry, drop| dry.max(self.instant(drop.go)) + self.falling(drop.cost))
    }

    /// How much longer the outlet is busy at a moment.
    fn busy(&self, dry: u128, moment: u64) -> u128 {
        dry.saturating_sub(self.instant(moment))
    }
}

impl Naive for LeakyBucket {
    fn limit(&self) -> u64 {
        self.capacity
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let (dry, room) = (self.dry(), self.falling(self.capacity));
        first_moment(now, |moment| self.busy(dry, moment) + self.falling(cost) <= room)
    }

    fn go_at(&self, cost: u64, now: u64) -> u64 {
        let free_at = self.free_at(cost, now);
        if self.shaped { free_at.max(self.rests_at(now)) } else { free_at }
    }

    fn book(&mut self, booking: Booking) {
        self.admitted.push(booking);
    }

    fn remaining(&self, now: u64) -> u64 {
        let room = self.falling(self.capacity).saturating_sub(self.busy(self.dry(), now));
        u64::try_from(room / u128::from(self.per)).unwrap()
    }

    fn rests_at(&self, now: u64) -> u64 {
        let dry = self.dry();
        first_moment(now, |moment| self.busy(dry, moment) == 0)
    }
}
