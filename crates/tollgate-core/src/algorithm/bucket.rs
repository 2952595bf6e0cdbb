//! The bucket that drains evenly: token bucket, GCRA and leaky bucket are this one meter.
//!
//! A token bucket counts what is left, a leaky bucket what is used, GCRA when the used part will have drained; the
//! arithmetic is the same. We keep `used`, in units so small that draining is a whole number: a quota of `a` permits
//! every `p` µs is reduced to lowest terms a'/p'; one permit is p' units, and a' units drain every microsecond. So
//! "3 per second" drains 3 units a microsecond from permits of 1 000 000, and nothing is ever rounded but waits.
//!
//! ```text
//!   capacity ┬─────────────  a request passes while used + cost fits below
//!            │   free
//!       used ┤▒▒▒▒▒▒▒▒▒▒▒▒▒  drains a' units every µs, never below zero
//!          0 ┴─────────────
//! ```
//!
//! A reservation may lift `used` above the capacity: the rest is time that waiters have been told to wait. Booked for
//! a moment `at` beyond the own wait (another rule was slower), `used` is first raised to what will have drained by
//! then, as if the request came at that moment; else the drain until then would be spent twice.
//!
//! Shaped, the bucket is a queue: an admitted request is told when the water ahead of it will have drained.
//!
//! Bound: in any span of W µs at most `capacity + W × a'/p'` permits go; shaped, `one request + W × a'/p'`.

use super::{Algorithm, Charge, GiveBack, Look, Meter, Scale, Tried, Weighed, stepped_back};
use crate::{
    bounds::{MAX_CAPACITY_UNITS, MAX_LEVEL, tolerance},
    time::Micros,
};

/// A bucket's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// Permits it holds.
    permits: u64,
    /// The same in units.
    capacity: u64,
    /// Units in one permit (p').
    unit: u64,
    /// Multiplying by this and shifting is faster than dividing by the unit; see [`reciprocal`].
    per_unit: u64,
    per_unit_shift: u32,
    /// Units that drain every microsecond (a').
    drain: u64,
    /// How far back the clock may step before the state moves with it.
    tolerance: Micros,
    /// Whether admitted requests are told to wait for their own drop.
    shaped: bool,
}

/// The level at a moment, clock guard applied.
#[derive(Clone, Copy)]
struct Level {
    /// When draining goes on: now, or a little later while a clock that stepped back catches up.
    base: Micros,
    used: u64,
}

/// What a plain try comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poured {
    /// Units that are free when it is over; below zero while there are debts.
    pub(crate) free: i64,
    /// Units that did not fit; if there are any, none was taken.
    pub(crate) over: u64,
}

impl Bucket {
    /// `None` if the capacity is too large to count in exact units.
    pub(crate) fn new(permits: u64, limit: u64, per: Micros, shaped: bool) -> Option<Self> {
        let (drain, unit) = lowest_terms(limit, per);
        let capacity = permits.checked_mul(unit).filter(|&units| units < MAX_CAPACITY_UNITS)?;
        let (per_unit, per_unit_shift) = reciprocal(unit);
        Some(Self { permits, capacity, unit, per_unit, per_unit_shift, drain, tolerance: tolerance(per), shaped })
    }

    /// Units in one permit.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Units that drain every microsecond.
    pub fn drain(&self) -> u64 {
        self.drain
    }

    /// Units it holds.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Whether the outflow is shaped.
    pub fn is_shaped(&self) -> bool {
        self.shaped
    }

    /// Units used at `now`.
    pub fn used(&self, state: &Meter, now: Micros) -> u64 {
        self.level(state, now).used
    }

    /// The state of a key that was counted under other numbers. Units differ from quota to quota, so what is used is
    /// carried over in whole permits, rounded up.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Micros) -> Meter {
        let level = old.level(state, now);
        let permits = scale.apply(level.used.div_ceil(old.unit));
        Meter { at: level.base, used: permits.saturating_mul(self.unit).min(MAX_LEVEL) }
    }

    /// The same, carried over in time: what is used takes as long to drain as it would have.
    pub(crate) fn adopt_moment(&self, old: &Self, state: &Meter, now: Micros) -> Meter {
        let level = old.level(state, now);
        let used = (u128::from(level.used) * u128::from(self.drain)).div_ceil(u128::from(old.drain));
        Meter { at: level.base, used: u64::try_from(used).unwrap_or(MAX_LEVEL).min(MAX_LEVEL) }
    }

    /// A plain try of a bucket that tells nobody to wait, while the clock runs forward. `None` where there is more to say.
    ///
    /// A processor waits for the clock longer than for anything else here, so as little as possible is left to do once
    /// the time is known.
    #[inline(always)]
    pub(crate) fn pour(&self, state: &Meter, cost: u64, now: Micros) -> Option<Poured> {
        if now < state.at || cost == 0 || cost > self.permits {
            return None;
        }
        let capacity = self.capacity.cast_signed();
        // Levels, times and capacities are below 2^53, so none of this wraps.
        let free = if self.drain == 1 {
            let when_full = capacity - (state.at.0 + state.used).cast_signed();
            (now.0.cast_signed() + when_full).min(capacity)
        } else {
            let drained = (now.0 - state.at.0).saturating_mul(self.drain);
            capacity - state.used.saturating_sub(drained).cast_signed()
        };
        let left = free - (cost * self.unit).cast_signed();
        Some(if left >= 0 { Poured { free: left, over: 0 } } else { Poured { free, over: left.unsigned_abs() } })
    }

    /// The state after it, if it was allowed.
    #[inline(always)]
    pub(crate) fn charged(&self, poured: Poured, now: Micros) -> Option<Meter> {
        (poured.over == 0).then(|| Meter { at: now, used: self.used_beside(poured.free) })
    }

    /// When it would pass; nothing to wait for if it has.
    #[inline(always)]
    pub(crate) fn retry_after(&self, Poured { over, .. }: Poured) -> Micros {
        self.time_to_drain(over)
    }

    /// What a caller is told of it.
    #[inline(always)]
    pub(crate) fn tried(&self, poured @ Poured { free, .. }: Poured) -> Tried {
        Tried {
            retry_after: self.retry_after(poured),
            remaining: self.whole_permits(free.max(0).cast_unsigned()),
            reset_after: self.time_to_drain(self.used_beside(free)),
        }
    }

    #[inline(always)]
    fn used_beside(&self, free: i64) -> u64 {
        (self.capacity.cast_signed() - free).cast_unsigned()
    }

    #[inline]
    fn level(&self, state: &Meter, now: Micros) -> Level {
        let drained = (now - state.at).0.saturating_mul(self.drain);
        match state.used.saturating_sub(drained) {
            0 => Level { base: now, used: 0 },
            used => Level { base: now.max(state.at), used },
        }
    }

    /// How many whole permits so many units are: `units / unit`, on the path of every decision.
    #[inline]
    fn whole_permits(&self, units: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "the upper half of a 128-bit product fits 64 bits")]
        let scaled = ((u128::from(units << 1) * u128::from(self.per_unit)) >> 64) as u64;
        scaled >> self.per_unit_shift
    }

    /// When `units` of the level will have drained.
    #[inline]
    fn drained_at(&self, level: Level, units: u64) -> Micros {
        level.base + self.time_to_drain(units)
    }

    #[inline]
    fn time_to_drain(&self, units: u64) -> Micros {
        // Most quotas reduce to one unit a microsecond, and divisions are slow.
        Micros(if self.drain == 1 { units } else { self.divided_by_drain(units) })
    }

    #[cold]
    #[inline(never)]
    fn divided_by_drain(&self, units: u64) -> u64 {
        units.div_ceil(self.drain)
    }
}

impl Algorithm for Bucket {
    type State = Meter;

    #[inline]
    fn limit(&self) -> u64 {
        self.permits
    }

    #[inline]
    fn follow(&self, state: &mut Meter, now: Micros) -> Micros {
        let back = stepped_back(state.at, now, self.tolerance);
        state.at = state.at - back;
        back
    }

    #[inline]
    fn weigh(&self, state: &Meter, cost: u64, now: Micros) -> Weighed {
        let level = self.level(state, now);
        let over = (level.used + cost * self.unit).saturating_sub(self.capacity);
        let free_at = if over == 0 || cost == 0 { now } else { self.drained_at(level, over) };
        let go_at = if self.shaped && level.used > 0 && cost > 0 {
            self.drained_at(level, level.used).max(free_at)
        } else {
            free_at
        };
        Weighed { free_at, go_at }
    }

    #[inline]
    fn charge(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        let drained_until_then = (charge.at - level.base).0.saturating_mul(self.drain);
        let used = level.used.max(drained_until_then) + charge.cost * self.unit;
        *state = Meter { at: level.base, used };
    }

    #[inline(always)]
    fn try_quickly(&self, state: &mut Meter, cost: u64, now: Micros) -> Option<Tried> {
        if self.shaped {
            return None;
        }
        let poured = self.pour(state, cost, now)?;
        if let Some(charged) = self.charged(poured, now) {
            *state = charged;
        }
        Some(self.tried(poured))
    }

    fn penalize(&self, state: &mut Meter, charge: Charge, now: Micros) {
        let level = self.level(state, now);
        let used = level.used.saturating_add(charge.cost.saturating_mul(self.unit)).min(MAX_LEVEL);
        *state = Meter { at: level.base, used };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Micros) {
        if !back.last_in_line {
            return;
        }
        let level = self.level(state, now);
        let used = level.used.saturating_sub(back.cost.saturating_mul(self.unit));
        *state = Meter { at: level.base, used };
    }

    #[inline]
    fn look(&self, state: &Meter, now: Micros) -> Look {
        let level = self.level(state, now);
        let remaining = self.whole_permits(self.capacity.saturating_sub(level.used));
        let rests_at = if level.used == 0 { now } else { self.drained_at(level, level.used) };
        Look { remaining, rests_at }
    }

    fn line_ends(&self, state: &Meter, now: Micros) -> Micros {
        let level = self.level(state, now);
        // Shaped, the last in the queue stands behind all water but his own, which is one permit at least.
        let own = if self.shaped { self.unit } else { self.capacity };
        match level.used.saturating_sub(own) {
            0 => now,
            ahead => self.drained_at(level, ahead),
        }
    }

    /// Waits round up, and what a cancelled one was rounded by stays used, so the line may seem to end a little later
    /// than it does; but nobody who waits stands closer behind another than his permit takes to drain. (One that has
    /// gone already is never the last in line while somebody waits.)
    fn is_last_in_line(&self, state: &Meter, cost: u64, at: Micros, now: Micros) -> bool {
        let level = self.level(state, now);
        let own = if self.shaped { cost.saturating_mul(self.unit) } else { self.capacity };
        let ends = self.drained_at(level, level.used.saturating_sub(own));
        let rounding = Micros(self.unit / self.drain / 2);
        at > now && at + rounding >= ends
    }

    fn horizon(&self) -> Micros {
        Micros((MAX_LEVEL - self.capacity) / self.drain)
    }
}

/// Permits per microsecond as a fraction in lowest terms.
pub fn lowest_terms(limit: u64, per: Micros) -> (u64, u64) {
    let common = greatest_common_divisor(limit, per.0).max(1);
    (limit / common, per.0 / common)
}

/// A factor f and a shift s such that n ÷ d = 2n × f ÷ 2^64 ÷ 2^s, both rounded down, for every n below 2^52.
///
/// With 2^s the first power of two not below d, f is 2^(52 + s) ÷ d rounded up, as far left in its word as it goes. That
/// is too much by less than d ÷ 2^(52 + s) of a permit for each unit, and so by less than 1 ÷ d for all of them: never
/// enough to reach the next whole number.
fn reciprocal(d: u64) -> (u64, u32) {
    let shift = d.next_power_of_two().ilog2();
    let factor = (1_u128 << (52 + shift)).div_ceil(u128::from(d)) << 11;
    (u64::try_from(factor).unwrap_or(u64::MAX), shift)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The short way says and does what the long one does.
    #[test]
    fn a_plain_try_is_weigh_charge_and_look_in_one() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) % below
        };
        for round in 0..300_000 {
            let (permits, limit) = (1 + next(50), 1 + next(30));
            let per = Micros([1_000, 1_000_000, 60_000_000][usize::try_from(round % 3).unwrap()]);
            let bucket = Bucket::new(permits, limit, per, false).unwrap();
            // Now and then in debt, as after a penalty or a change of the quota.
            let state = Meter { at: Micros(1 << 40), used: next(bucket.capacity * 5 / 4 + 2) };
            let now = state.at + Micros(next(per.0 * 3));
            let cost = 1 + next(permits);

            let (mut quick, mut slow) = (state, state);
            let tried = bucket.try_quickly(&mut quick, cost, now).unwrap();
            let weighed = bucket.weigh(&state, cost, now);
            if weighed.free_at == now {
                bucket.charge(&mut slow, Charge { cost, at: now, lease: Default::default() }, now);
            }
            let look = bucket.look(&slow, now);
            let reset_after = look.rests_at - now;
            assert_eq!(tried, Tried { retry_after: weighed.free_at - now, remaining: look.remaining, reset_after });
            assert_eq!(quick, slow, "{bucket:?} {state:?} {cost} at {now}");
        }
    }

    /// The factor stands in for a division, so it must give the same for every unit and level there can be.
    #[test]
    fn whole_permits_are_exactly_the_quotient() {
        let mut random = 1_u64;
        let mut next = |bits: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> (64 - bits)
        };
        for _ in 0..1_000_000 {
            let per = Micros(next(48).max(1) >> next(5));
            let Some(bucket) = Bucket::new(1, next(20).max(1), per.max(Micros(1)), false) else { continue };
            let whole = next(22).saturating_mul(bucket.unit);
            for units in [next(52), whole, whole.saturating_sub(1), whole.saturating_add(1), 0, MAX_LEVEL] {
                let units = units.min(MAX_LEVEL);
                assert_eq!(bucket.whole_permits(units), units / bucket.unit, "{units} ÷ {}", bucket.unit);
            }
        }
    }
}
