//! Token bucket, GCRA and leaky bucket: one meter that drains continuously.
//!
//! A token bucket counts what is left, a leaky bucket what is used, GCRA when the used part will have drained; the
//! arithmetic is the same. The state is `used`, in units so small that draining is a whole number: a quota of `a`
//! permits every `p` µs is reduced to lowest terms a'/p'; one permit is p' units, and a' units drain every microsecond.
//! So "3 per second" drains 3 units a microsecond from permits of 1 000 000, and only waits are rounded.
//!
//! ```text
//!   capacity ┬─────────────  a request passes while used + cost fits below
//!            │   free
//!       used ┤▒▒▒▒▒▒▒▒▒▒▒▒▒  drains a' units every µs, never below zero
//!          0 ┴─────────────
//! ```
//!
//! A reservation may raise `used` above the capacity; the excess is the wait that was assigned. If it is charged for a
//! later time than this rule needs (another rule was slower), `used` is first raised to what will have drained by then,
//! as if the request came at that time; otherwise the drain until then would be spent twice.
//!
//! Shaped, the bucket is a queue: an admitted request waits until everything before it has drained.
//!
//! Bound: in any span of W µs at most `capacity + W × a'/p'` permits are admitted; shaped, `one request + W × a'/p'`.
//!
//! Twin: `bucket.lua` in the Redis store.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Meter, Scale, Tried, Weighed, stepped_back};
use crate::{
    bounds::{MAX_CAPACITY_UNITS, MAX_LEVEL, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// A bucket's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// Capacity in permits.
    permits: u64,
    /// Capacity in units.
    capacity: u64,
    /// Units in one permit (p').
    unit: u64,
    /// Factor and shift that replace a division by the unit; see [`reciprocal`].
    per_unit: u64,
    per_unit_shift: u32,
    /// Units that drain every microsecond (a').
    drain: u64,
    /// How far back the clock may step before the state moves with it.
    tolerance: Span,
    /// Whether admitted requests wait until everything before them has drained.
    shaped: bool,
}

/// The level at a time, clock guard applied.
#[derive(Clone, Copy)]
struct BucketLevel {
    /// When draining continues: now, or later while a clock that stepped back catches up.
    base: Timestamp,
    used: u64,
}

/// The result of a take without a wait, not charged yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poured {
    /// Units free afterwards; negative while more than the capacity is used.
    pub(crate) free: i64,
    /// Units that did not fit; if there are any, the take is denied.
    pub(crate) over: u64,
}

impl Bucket {
    /// `None` if the capacity is too large to count in exact units.
    pub(crate) fn new(permits: u64, limit: u64, per: Span, shaped: bool) -> Option<Self> {
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

    /// Capacity in units.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Whether the rule is shaped.
    pub fn is_shaped(&self) -> bool {
        self.shaped
    }

    /// Units used at `now`.
    pub fn used(&self, state: &Meter, now: Timestamp) -> u64 {
        self.level(state, now).used
    }

    /// Migrates a state from another quota. Units differ between quotas, so `used` is converted in whole permits, rounded
    /// up.
    pub(crate) fn adopt(&self, old: &Self, state: &Meter, scale: Scale, now: Timestamp) -> Meter {
        let level = old.level(state, now);
        let permits = scale.apply(level.used.div_ceil(old.unit));
        Meter { at: level.base, used: permits.saturating_mul(self.unit).min(MAX_LEVEL) }
    }

    /// Migrates a state so that it takes as long to drain as before.
    pub(crate) fn adopt_moment(&self, old: &Self, state: &Meter, now: Timestamp) -> Meter {
        let level = old.level(state, now);
        let used = (u128::from(level.used) * u128::from(self.drain)).div_ceil(u128::from(old.drain));
        Meter { at: level.base, used: u64::try_from(used).unwrap_or(MAX_LEVEL).min(MAX_LEVEL) }
    }

    /// Fast path of a take without a wait on a bucket that is not shaped, while the clock runs forward; `None` otherwise.
    ///
    /// Reading the clock takes longest, so most of the arithmetic does not depend on it and overlaps with the read.
    #[inline(always)]
    pub(crate) fn pour(&self, state: &Meter, cost: u64, now: Timestamp) -> Option<Poured> {
        if now < state.at || cost == 0 || cost > self.permits {
            return None;
        }
        let capacity = self.capacity.cast_signed();
        // Levels, times and capacities are below 2^53, so none of this wraps.
        let free = if self.drain == 1 {
            let free_at_epoch = capacity - (state.at.as_micros() + state.used).cast_signed();
            (now.as_micros().cast_signed() + free_at_epoch).min(capacity)
        } else {
            let drained = (now.as_micros() - state.at.as_micros()).saturating_mul(self.drain);
            capacity - state.used.saturating_sub(drained).cast_signed()
        };
        let left = free - (cost * self.unit).cast_signed();
        Some(if left >= 0 { Poured { free: left, over: 0 } } else { Poured { free, over: left.unsigned_abs() } })
    }

    /// The new state, if the take is allowed.
    #[inline(always)]
    pub(crate) fn charged(&self, poured: Poured, now: Timestamp) -> Option<Meter> {
        (poured.over == 0).then(|| Meter { at: now, used: self.used_if_free(poured.free) })
    }

    /// Time until the take would pass; 0 if it is allowed.
    #[inline(always)]
    pub(crate) fn retry_after(&self, Poured { over, .. }: Poured) -> Span {
        self.time_to_drain(over)
    }

    /// The numbers of the decision.
    #[inline(always)]
    pub(crate) fn tried(&self, poured @ Poured { free, .. }: Poured) -> Tried {
        Tried {
            retry_after: self.retry_after(poured),
            remaining: self.whole_permits(free.max(0).cast_unsigned()),
            reset_after: self.time_to_drain(self.used_if_free(free)),
        }
    }

    #[inline(always)]
    fn used_if_free(&self, free: i64) -> u64 {
        (self.capacity.cast_signed() - free).cast_unsigned()
    }

    #[inline]
    fn level(&self, state: &Meter, now: Timestamp) -> BucketLevel {
        let drained = now.since(state.at).as_micros().saturating_mul(self.drain);
        match state.used.saturating_sub(drained) {
            0 => BucketLevel { base: now, used: 0 },
            used => BucketLevel { base: now.max(state.at), used },
        }
    }

    /// `units / unit`, without a division: every decision computes it.
    #[inline]
    fn whole_permits(&self, units: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "the upper half of a 128-bit product fits 64 bits")]
        let scaled = ((u128::from(units << 1) * u128::from(self.per_unit)) >> 64) as u64;
        scaled >> self.per_unit_shift
    }

    /// When `units` of the level have drained.
    #[inline]
    fn drained_at(&self, level: BucketLevel, units: u64) -> Timestamp {
        level.base + self.time_to_drain(units)
    }

    #[inline]
    fn time_to_drain(&self, units: u64) -> Span {
        // Most quotas reduce to one unit per microsecond, which saves the division.
        Span::from_micros(if self.drain == 1 { units } else { self.divided_by_drain(units) })
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
    fn follow(&self, state: &mut Meter, now: Timestamp) -> Span {
        let back = stepped_back(state.at, now, self.tolerance);
        state.at = state.at - back;
        back
    }

    #[inline]
    fn weigh(&self, state: &Meter, cost: u64, now: Timestamp) -> Weighed {
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
    fn charge(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let level = self.level(state, now);
        let drained_until_then = charge.at.since(level.base).as_micros().saturating_mul(self.drain);
        let used = level.used.max(drained_until_then) + charge.cost * self.unit;
        *state = Meter { at: level.base, used };
    }

    #[inline(always)]
    fn try_quickly(&self, state: &mut Meter, cost: u64, now: Timestamp) -> Option<Tried> {
        if self.shaped {
            return None;
        }
        let poured = self.pour(state, cost, now)?;
        if let Some(charged) = self.charged(poured, now) {
            *state = charged;
        }
        Some(self.tried(poured))
    }

    fn penalize(&self, state: &mut Meter, charge: Charge, now: Timestamp) {
        let level = self.level(state, now);
        let used = level.used.saturating_add(charge.cost.saturating_mul(self.unit)).min(MAX_LEVEL);
        *state = Meter { at: level.base, used };
    }

    fn give_back(&self, state: &mut Meter, back: GiveBack, now: Timestamp) {
        if !back.last_in_line {
            return;
        }
        let level = self.level(state, now);
        let used = level.used.saturating_sub(back.cost.saturating_mul(self.unit));
        *state = Meter { at: level.base, used };
    }

    #[inline]
    fn look(&self, state: &Meter, now: Timestamp) -> Look {
        let level = self.level(state, now);
        let remaining = self.whole_permits(self.capacity.saturating_sub(level.used));
        let reset_at = if level.used == 0 { now } else { self.drained_at(level, level.used) };
        Look { remaining, reset_at }
    }

    fn line_ends(&self, state: &Meter, now: Timestamp) -> Timestamp {
        let level = self.level(state, now);
        // Shaped, the last request waits for everything but its own units, which are one permit at least.
        let own = if self.shaped { self.unit } else { self.capacity };
        match level.used.saturating_sub(own) {
            0 => now,
            ahead => self.drained_at(level, ahead),
        }
    }

    /// Waits round up, and the rounding of a cancelled wait stays in `used`, so the computed end of the queue may be late
    /// by less than half a permit. Reservations are at least one permit apart, so half a permit of slack does not confuse
    /// two of them. A time in the past is never the latest reservation.
    fn is_last_in_line(&self, state: &Meter, cost: u64, at: Timestamp, now: Timestamp) -> bool {
        let level = self.level(state, now);
        let own = if self.shaped { cost.saturating_mul(self.unit) } else { self.capacity };
        let ends = self.drained_at(level, level.used.saturating_sub(own));
        let slack = Span::from_micros(self.unit / self.drain / 2);
        at > now && at + slack >= ends
    }

    /// Not before the last change of the state: what has drained until then would drain again.
    fn charge_past(&self, state: &mut Meter, cost: u64, used_at: Timestamp, _now: Timestamp) {
        let at = used_at.max(state.at);
        self.penalize(state, Charge { cost, at, lease: LeaseId(0) }, at);
    }

    fn reset_with_held(&self, state: &Meter, held: Held, now: Timestamp) -> Timestamp {
        let units = self.level(state, now).used.saturating_add(held.permits.saturating_mul(self.unit)).min(MAX_LEVEL);
        held.until + self.time_to_drain(units)
    }

    /// A fourth of the time in which a full bucket drains.
    fn turn(&self) -> Span {
        Span::from_micros(self.capacity / (4 * self.drain))
    }

    fn horizon(&self) -> Span {
        Span::from_micros((MAX_LEVEL - self.capacity) / self.drain)
    }
}

/// Permits per microsecond as a fraction in lowest terms.
pub fn lowest_terms(limit: u64, per: Span) -> (u64, u64) {
    let common = greatest_common_divisor(limit, per.as_micros()).max(1);
    (limit / common, per.as_micros() / common)
}

/// A factor f and a shift s such that n ÷ d = 2n × f ÷ 2^64 ÷ 2^s, both rounded down, for every n below 2^52.
///
/// With 2^s the first power of two not below d, f is 2^(52 + s) ÷ d rounded up, shifted to the top of its word. The
/// rounding adds less than d ÷ 2^(52 + s) of a permit per unit, so less than 1 ÷ d in total: never enough to reach the
/// next whole number.
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

    /// The fast path has the same result as the general path.
    #[test]
    fn try_quickly_equals_weigh_charge_and_look() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) % below
        };
        for round in 0..300_000 {
            let (permits, limit) = (1 + next(50), 1 + next(30));
            let per = Span::from_micros([1_000, 1_000_000, 60_000_000][usize::try_from(round % 3).unwrap()]);
            let bucket = Bucket::new(permits, limit, per, false).unwrap();
            // Sometimes above the capacity, as after a penalty or a change of the quota.
            let state = Meter { at: Timestamp::from_micros(1 << 40), used: next(bucket.capacity * 5 / 4 + 2) };
            let now = state.at + Span::from_micros(next(per.as_micros() * 3));
            let cost = 1 + next(permits);

            let (mut quick, mut slow) = (state, state);
            let tried = bucket.try_quickly(&mut quick, cost, now).unwrap();
            let weighed = bucket.weigh(&state, cost, now);
            if weighed.free_at == now {
                bucket.charge(&mut slow, Charge { cost, at: now, lease: Default::default() }, now);
            }
            let look = bucket.look(&slow, now);
            let reset_after = look.reset_at.since(now);
            assert_eq!(
                tried,
                Tried { retry_after: weighed.free_at.since(now), remaining: look.remaining, reset_after }
            );
            assert_eq!(quick, slow, "{bucket:?} {state:?} {cost} at {now}");
        }
    }

    /// The factor replaces a division, so it must give the same quotient for every unit and level.
    #[test]
    fn whole_permits_are_exactly_the_quotient() {
        let mut random = 1_u64;
        let mut next = |bits: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> (64 - bits)
        };
        for _ in 0..1_000_000 {
            let per = Span::from_micros(next(48).max(1) >> next(5));
            let Some(bucket) = Bucket::new(1, next(20).max(1), per.max(Span::from_micros(1)), false) else { continue };
            let whole = next(22).saturating_mul(bucket.unit);
            for units in [next(52), whole, whole.saturating_sub(1), whole.saturating_add(1), 0, MAX_LEVEL] {
                let units = units.min(MAX_LEVEL);
                assert_eq!(bucket.whole_permits(units), units / bucket.unit, "{units} ÷ {}", bucket.unit);
            }
        }
    }
}
