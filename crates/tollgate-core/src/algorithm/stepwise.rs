//! The token bucket that refills in lumps: `lump` permits at once every `per`, nothing in between.
//!
//! Ticks are counted from the take that found the bucket full, so a key's first period is a whole one. With
//! capacity 10 and lumps of 5 every second, an emptied bucket has none at 999 ms and five at 1000 ms.
//!
//! As in [`bucket`](super::bucket), `used` may exceed the capacity while waiters hold reservations, and a booking for
//! a later moment first raises it to what the ticks until then will have refilled.
//!
//! Bound: in any span of W at most `capacity + lump × (W / per + 1)` permits go.

use super::{Algorithm, Charge, GiveBack, Look, Meter, Scale, Weighed, stepped_back};
use crate::{
    bounds::{MAX_CAPACITY_UNITS, MAX_LEVEL, tolerance},
    time::Micros,
};

/// A stepwise bucket's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stepwise {
    capacity: u64,
    lump: u64,
    per: Micros,
    tolerance: Micros,
}

/// The level at a moment, ticks counted and clock guard applied.
#[derive(Clone, Copy)]
struct Level {
    /// The last tick; now, for a full bucket.
    tick: Micros,
    used: u64,
}

impl Stepwise {
    /// `None` if an empty bucket would take longer to refill than can be counted exactly.
    pub(crate) fn new(capacity: u64, lump: u64, per: Micros) -> Option<Self> {
        let to_refill = capacity.div_ceil(lump).checked_mul(per.0)?;
        (to_refill < MAX_CAPACITY_UNITS).then(|| Self { capacity, lump, per, tolerance: tolerance(per) })
    }

    /// Permits that come at once.
    pub fn lump(&self) -> u64 {
        self.lump
    }

    /// How often they come.
    pub fn per(&self) -> Micros {
        self.per
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Permits used at `now`, and the tick they are counted from.
    pub fn used(&self, state: &Meter, now: Micros) -> (u64, Micros) {
        let level = self.level(state, now);
        (level.used, level.tick)
    }

    /// The state of a key that was counted under other numbers; ticks go on if they have the same length.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Micros) -> Meter {
        let level = old.level(state, now);
        let at = if old.per == self.per { level.tick } else { now };
        Meter { at, used: scale.apply(level.used).min(self.most()) }
    }

    fn level(&self, state: &Meter, now: Micros) -> Level {
        let ticks = (now - state.at).0 / self.per.0;
        let used = state.used.saturating_sub(ticks.saturating_mul(self.lump));
        let tick = state.at + Micros(ticks * self.per.0);
        if used == 0 { Level { tick: now, used } } else { Level { tick, used } }
    }

    /// When ticks will have refilled so many permits.
    fn refilled_at(&self, level: Level, permits: u64) -> Micros {
        level.tick + Micros(permits.div_ceil(self.lump) * self.per.0)
    }
}

impl Algorithm for Stepwise {
    type State = Meter;

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn follow(&self, state: &mut Meter, now: Micros) -> Micros {
        let back = stepped_back(state.at, now, self.tolerance);
        state.at = state.at - back;
        back
    }

    fn weigh(&self, state: &Meter, cost: u64, now: Micros) -> Weighed {
        let level = self.level(state, now);
        let over = (level.used + cost).saturating_sub(self.capacity);
        if over == 0 || cost == 0 { Weighed::at(now) } else { Weighed::at(self.refilled_at(level, over)) }
    }

    fn charge(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        let ticks_until_then = (charge.at - level.tick).0 / self.per.0;
        let used = level.used.max(ticks_until_then * self.lump) + charge.cost;
        *state = Meter { at: level.tick, used };
    }

    fn penalize(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        *state = Meter { at: level.tick, used: level.used.saturating_add(charge.cost).min(self.most()) };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Micros) {
        if !back.last_in_line {
            return;
        }
        let level = self.level(state, now);
        *state = Meter { at: level.tick, used: level.used.saturating_sub(back.cost) };
    }

    fn look(&self, state: &Meter, now: Micros) -> Look {
        let level = self.level(state, now);
        let rests_at = if level.used == 0 { now } else { self.refilled_at(level, level.used) };
        Look { remaining: self.capacity.saturating_sub(level.used), rests_at }
    }

    fn line_ends(&self, state: &Meter, now: Micros) -> Micros {
        let level = self.level(state, now);
        let waiting = level.used.saturating_sub(self.capacity);
        if waiting == 0 { now } else { self.refilled_at(level, waiting) }
    }

    fn horizon(&self) -> Micros {
        let ticks = ((self.most() - self.capacity) / self.lump).saturating_sub(1);
        Micros(ticks.saturating_mul(self.per.0))
    }
}

impl Stepwise {
    /// The most that may be charged: few enough that neither the permits nor the ticks to refill them leave 2^52.
    fn most(&self) -> u64 {
        (MAX_LEVEL / self.per.0).saturating_mul(self.lump).min(MAX_LEVEL)
    }
}
