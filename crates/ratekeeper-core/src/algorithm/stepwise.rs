//! Stepwise token bucket: refills `lump` permits at once every `per`, nothing in between.
//!
//! Ticks are counted from the take that found the bucket full, so a key's first period is a whole one. With
//! capacity 10 and lumps of 5 every second, an emptied bucket has none at 999 ms and five at 1000 ms.
//!
//! As in [`bucket`](super::bucket), `used` may exceed the capacity while there are reservations, and a charge for a later
//! time first raises it to what the ticks until then will have refilled.
//!
//! Bound: in any span of W at most `capacity + lump × (W / per + 1)` permits are admitted.
//!
//! Twin: `stepwise.lua` in the Redis store.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Meter, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_CAPACITY_UNITS, MAX_LEVEL, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// A stepwise bucket's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stepwise {
    capacity: u64,
    lump: u64,
    per: Span,
    tolerance: Span,
}

/// The level at a time, ticks counted and clock guard applied.
#[derive(Clone, Copy)]
struct SteppedLevel {
    /// The last tick; now, for a full bucket.
    tick: Timestamp,
    used: u64,
}

impl Stepwise {
    /// `None` if an empty bucket would take longer to refill than can be counted exactly.
    pub(crate) fn new(capacity: u64, lump: u64, per: Span) -> Option<Self> {
        let to_refill = capacity.div_ceil(lump).checked_mul(per.as_micros())?;
        (to_refill < MAX_CAPACITY_UNITS).then(|| Self { capacity, lump, per, tolerance: tolerance(per) })
    }

    /// Permits per refill.
    pub fn lump(&self) -> u64 {
        self.lump
    }

    /// Time between refills.
    pub fn per(&self) -> Span {
        self.per
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Permits used at `now`, and the tick they are counted from.
    pub fn used(&self, state: &Meter, now: Timestamp) -> (u64, Timestamp) {
        let level = self.level(state, now);
        (level.used, level.tick)
    }

    /// Migrates a state from another quota; ticks continue if they have the same length.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Timestamp) -> Meter {
        let level = old.level(state, now);
        let at = if old.per == self.per { level.tick } else { now };
        Meter { at, used: scale.apply(level.used).min(self.most()) }
    }

    fn level(&self, state: &Meter, now: Timestamp) -> SteppedLevel {
        let ticks = now.since(state.at).as_micros() / self.per.as_micros();
        let used = state.used.saturating_sub(ticks.saturating_mul(self.lump));
        let tick = state.at + Span::from_micros(ticks * self.per.as_micros());
        if used == 0 { SteppedLevel { tick: now, used } } else { SteppedLevel { tick, used } }
    }

    /// When ticks have refilled this many permits.
    fn refilled_at(&self, level: SteppedLevel, permits: u64) -> Timestamp {
        level.tick + Span::from_micros(permits.div_ceil(self.lump) * self.per.as_micros())
    }
}

impl Algorithm for Stepwise {
    type State = Meter;

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn follow(&self, state: &mut Meter, now: Timestamp) -> Span {
        let back = stepped_back(state.at, now, self.tolerance);
        state.at = state.at - back;
        back
    }

    fn weigh(&self, state: &Meter, cost: u64, now: Timestamp) -> Weighed {
        let level = self.level(state, now);
        let over = (level.used + cost).saturating_sub(self.capacity);
        if over == 0 || cost == 0 { Weighed::at(now) } else { Weighed::at(self.refilled_at(level, over)) }
    }

    fn charge(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let level = self.level(state, now);
        let ticks_until_then = charge.at.since(level.tick).as_micros() / self.per.as_micros();
        let used = level.used.max(ticks_until_then * self.lump) + charge.cost;
        *state = Meter { at: level.tick, used };
    }

    fn penalize(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let level = self.level(state, now);
        *state = Meter { at: level.tick, used: level.used.saturating_add(charge.cost).min(self.most()) };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Timestamp) {
        if !back.last_in_line {
            return;
        }
        let level = self.level(state, now);
        *state = Meter { at: level.tick, used: level.used.saturating_sub(back.cost) };
    }

    fn look(&self, state: &Meter, now: Timestamp) -> Look {
        let level = self.level(state, now);
        let reset_at = if level.used == 0 { now } else { self.refilled_at(level, level.used) };
        Look { remaining: self.capacity.saturating_sub(level.used), reset_at }
    }

    fn line_ends(&self, state: &Meter, now: Timestamp) -> Timestamp {
        let level = self.level(state, now);
        let waiting = level.used.saturating_sub(self.capacity);
        if waiting == 0 { now } else { self.refilled_at(level, waiting) }
    }

    /// Not before the last change of the state: what has drained until then would drain again.
    fn charge_past(&self, state: &mut Meter, cost: u64, used_at: Timestamp, _now: Timestamp) {
        let at = used_at.max(state.at);
        self.penalize(state, Charge { cost, at, lease: LeaseId(0) }, at);
    }

    fn reset_with_held(&self, state: &Meter, held: Held, now: Timestamp) -> Timestamp {
        let used = self.level(state, now).used.saturating_add(held.permits).min(self.most());
        held.until + Span::from_micros(used.div_ceil(self.lump) * self.per.as_micros())
    }

    fn turn(&self) -> Span {
        Span::from_micros(self.per.as_micros() / 20)
    }

    fn horizon(&self) -> Span {
        let ticks = ((self.most() - self.capacity) / self.lump).saturating_sub(1);
        Span::from_micros(ticks.saturating_mul(self.per.as_micros()))
    }
}

impl Stepwise {
    /// The most that may be charged: neither the permits nor the time to refill them exceed 2^52.
    fn most(&self) -> u64 {
        (MAX_LEVEL / self.per.as_micros()).saturating_mul(self.lump).min(MAX_LEVEL)
    }
}
