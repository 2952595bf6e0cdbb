//! Token bucket, GCRA and leaky bucket: one meter that drains continuously.
//!
//! A token bucket counts what is left, a leaky bucket what is used, GCRA when the used part will have drained; the
//! arithmetic is the same. The state is `used`, in units so small that draining is a whole number: a quota of `a`
//! permits every `p` µs is reduced to lowest terms a'/p'; one permit is p' units, and a' units drain every microsecond.
//! So "3 per second" drains 3 units a microsecond from permits of 1 000 000, and only waits are rounded. Quotas too large
//! for that, such as 7777 per 30 days, have a rounded [`DrainRate`].
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
//! Bound: in any span of W µs at most `capacity + W × a'/p'` permits are admitted; shaped, `one request + W × a'/p'`. With
//! a rounded rate, W is a microsecond longer.
//!
//! Twins: `bucket.lua` in the Redis store, and `rounded.lua` for rounded rates.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Meter, Scale, Tried, Weighed, rate::DrainRate, stepped_back};
use crate::{
    bounds::{MAX_LEVEL, tolerance},
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
    /// Units in one permit.
    unit: u64,
    /// Factor and shift that replace a division by the unit; see [`reciprocal`].
    per_unit: u64,
    per_unit_shift: u32,
    /// Units that drain per time.
    rate: DrainRate,
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
    /// `None` if the capacity is too large for the limit; see [`DrainRate::max_capacity`].
    pub(crate) fn new(permits: u64, limit: u64, per: Span, shaped: bool) -> Option<Self> {
        let (unit, rate) = DrainRate::of(permits, limit, per)?;
        let (per_unit, per_unit_shift) = reciprocal(unit);
        let capacity = permits * unit;
        Some(Self { permits, capacity, unit, per_unit, per_unit_shift, rate, tolerance: tolerance(per), shaped })
    }

    /// Units in one permit.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Units that drain every [`period`](Self::period).
    pub fn drain(&self) -> u64 {
        self.rate.drain
    }

    /// Microseconds in which `drain` units drain: 1, unless the rate is rounded.
    pub fn period(&self) -> u64 {
        self.rate.period
    }

    /// Whether the rate is rounded: the quota is too large for permits of exact units, and times are within 1 µs.
    pub fn is_rounded(&self) -> bool {
        self.rate.period > 1
    }

    /// Units that drain from one time to a later one.
    pub fn drained(&self, from: Timestamp, to: Timestamp) -> u64 {
        self.rate.drained(from, to)
    }

    /// When this many units have drained, counted from `base`.
    pub fn drained_by(&self, base: Timestamp, units: u64) -> Timestamp {
        self.rate.drained_at(base, units)
    }

    /// Half the time in which one permit drains.
    pub fn half_permit(&self) -> Span {
        Span::from_micros(self.rate.about(self.unit).as_micros() / 2)
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
        let (from, to) = (old.rate, self.rate);
        let time = u128::from(level.used) * u128::from(from.period);
        let used = (time * u128::from(to.drain)).div_ceil(u128::from(from.drain) * u128::from(to.period));
        Meter { at: level.base, used: u64::try_from(used).unwrap_or(MAX_LEVEL).min(MAX_LEVEL) }
    }

    /// Fast path of a take without a wait on a bucket that is not shaped or rounded, while the clock runs forward; `None`
    /// otherwise.
    ///
    /// Reading the clock takes longest, so most of the arithmetic does not depend on it and overlaps with the read.
    #[inline(always)]
    pub(crate) fn pour(&self, state: &Meter, cost: u64, now: Timestamp) -> Option<Poured> {
        if now < state.at || cost == 0 || cost > self.permits {
            return None;
        }
        let capacity = self.capacity.cast_signed();
        // Levels, times and capacities are below 2^53, so none of this wraps.
        let free = if self.rate.drain == 1 {
            let free_at_epoch = capacity - (state.at.as_micros() + state.used).cast_signed();
            (now.as_micros().cast_signed() + free_at_epoch).min(capacity)
        } else if self.is_rounded() {
            return None;
        } else {
            let drained = (now.as_micros() - state.at.as_micros()).saturating_mul(self.rate.drain);
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
        Span::from_micros(self.rate.micros(over))
    }

    /// The numbers of the decision.
    #[inline(always)]
    pub(crate) fn tried(&self, poured @ Poured { free, .. }: Poured) -> Tried {
        Tried {
            retry_after: self.retry_after(poured),
            remaining: self.whole_permits(free.max(0).cast_unsigned()),
            reset_after: Span::from_micros(self.rate.micros(self.used_if_free(free))),
        }
    }

    #[inline(always)]
    fn used_if_free(&self, free: i64) -> u64 {
        (self.capacity.cast_signed() - free).cast_unsigned()
    }

    #[inline]
    fn level(&self, state: &Meter, now: Timestamp) -> BucketLevel {
        let drained = self.rate.drained(state.at, now);
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
        self.rate.drained_at(level.base, units)
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
        let drained_until_then = self.rate.drained(level.base, charge.at);
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
        at > now && at + self.half_permit() >= ends
    }

    /// Not before the last change of the state: what has drained until then would drain again.
    fn charge_past(&self, state: &mut Meter, cost: u64, used_at: Timestamp, _now: Timestamp) {
        let at = used_at.max(state.at);
        self.penalize(state, Charge { cost, at, lease: LeaseId(0) }, at);
    }

    fn reset_with_held(&self, state: &Meter, held: Held, now: Timestamp) -> Timestamp {
        let units = self.level(state, now).used.saturating_add(held.permits.saturating_mul(self.unit)).min(MAX_LEVEL);
        self.rate.drained_at(held.until, units)
    }

    /// A fourth of the time in which a full bucket drains.
    fn turn(&self) -> Span {
        self.rate.about(self.capacity / 4)
    }

    fn horizon(&self) -> Span {
        self.rate.about(MAX_LEVEL - self.capacity)
    }
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

#[cfg(test)]
mod tests;
