//! Rate of a bucket: how many units drain between two times.
//!
//! A quota of `a` permits every `p` µs is a'/p' in lowest terms. If the capacity stays below 2^50 with permits of p'
//! units, a' units drain every microsecond and nothing is rounded.
//!
//! Otherwise the rate is *rounded*: permits have as many units as fit below 2^50, and by time `t` exactly
//! ⌊t × drain ÷ period⌋ units have drained since the epoch.
//!
//! ```text
//!   7777 per 30 d: permits of 144 773 036 754 units, 187 649 984 472 643 of which drain every 432 000 000 000 µs
//! ```
//!
//! All spans are cut from the same count, so roundings do not add up. A unit drains within a microsecond. So every time
//! is within 1 µs of the exact one, and in any span of W µs no more drains than exactly in W + 1 µs.

use crate::{
    bounds::MAX_CAPACITY_UNITS,
    time::{Span, Timestamp},
};

/// Units per time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DrainRate {
    /// Units that drain every period.
    pub(crate) drain: u64,
    /// Microseconds; 1 if the rate is not rounded.
    pub(crate) period: u64,
}

impl DrainRate {
    /// The units of one permit, and the rate; `None` if the capacity is too large for the limit.
    pub(crate) fn of(capacity: u64, limit: u64, per: Span) -> Option<(u64, Self)> {
        let (drain, unit) = lowest_terms(limit, per);
        if capacity.checked_mul(unit).is_some_and(|units| units < MAX_CAPACITY_UNITS) {
            return Some((unit, Self { drain, period: 1 }));
        }
        let unit = (MAX_CAPACITY_UNITS - 1) / capacity.max(limit);
        let (drain, period) = lowest_terms(limit * unit, per);
        (drain >= period).then_some((unit, Self { drain, period }))
    }

    /// The largest capacity that [`of`](Self::of) accepts for this limit.
    pub(crate) fn max_capacity(limit: u64, per: Span) -> u64 {
        (MAX_CAPACITY_UNITS - 1) / per.as_micros().div_ceil(limit).max(1)
    }

    /// Units that drain from one time to a later one; 0 if it is not later.
    #[inline]
    pub(crate) fn drained(self, from: Timestamp, to: Timestamp) -> u64 {
        if self.period == 1 { to.since(from).as_micros().saturating_mul(self.drain) } else { self.rounded(from, to) }
    }

    /// When this many units have drained, counted from `base`.
    #[inline]
    pub(crate) fn drained_at(self, base: Timestamp, units: u64) -> Timestamp {
        if self.period == 1 { base + Span::from_micros(self.micros(units)) } else { self.rounded_at(base, units) }
    }

    /// Microseconds in which units drain if the rate is not rounded.
    #[inline]
    pub(crate) fn micros(self, units: u64) -> u64 {
        // Most quotas reduce to one unit per microsecond, which saves the division.
        if self.drain == 1 { units } else { self.divided(units) }
    }

    /// About how long units take to drain, rounded down.
    pub(crate) fn about(self, units: u64) -> Span {
        let micros = u128::from(units) * u128::from(self.period) / u128::from(self.drain);
        Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    #[cold]
    #[inline(never)]
    fn divided(self, units: u64) -> u64 {
        units.div_ceil(self.drain)
    }

    #[cold]
    #[inline(never)]
    fn rounded(self, from: Timestamp, to: Timestamp) -> u64 {
        let units = self.since_epoch(to).saturating_sub(self.since_epoch(from));
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    #[cold]
    #[inline(never)]
    fn rounded_at(self, base: Timestamp, units: u64) -> Timestamp {
        let units = self.since_epoch(base) + u128::from(units);
        let micros = (units * u128::from(self.period)).div_ceil(u128::from(self.drain));
        Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).max(base)
    }

    fn since_epoch(self, at: Timestamp) -> u128 {
        u128::from(at.as_micros()) * u128::from(self.drain) / u128::from(self.period)
    }
}

/// Permits per microsecond as a fraction in lowest terms.
pub fn lowest_terms(limit: u64, per: Span) -> (u64, u64) {
    let common = greatest_common_divisor(limit, per.as_micros()).max(1);
    (limit / common, per.as_micros() / common)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 366 * Span::DAY.as_micros();

    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut random = 11_u64;
        move |below| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) % below.max(1)
        }
    }

    /// Every limit up to 2^40, every period up to a year, every capacity up to the limit.
    #[test]
    fn every_quota_with_a_capacity_up_to_its_limit_has_a_rate_within_a_microsecond() {
        let mut next = numbers();
        for _ in 0..1_000_000 {
            let (bits, shift) = (1 + next(40), next(45));
            let limit = 1 + next(1 << bits);
            let per = Span::from_micros(1 + next(YEAR >> shift));
            let capacity = 1 + next(limit);
            let (unit, rate) =
                DrainRate::of(capacity, limit, per).unwrap_or_else(|| panic!("{capacity} at {limit} per {per}"));
            assert!(capacity * unit < MAX_CAPACITY_UNITS);
            let (exact_drain, exact_unit) = lowest_terms(limit, per);
            if capacity.checked_mul(exact_unit).is_some_and(|units| units < MAX_CAPACITY_UNITS) {
                assert_eq!(
                    (unit, rate),
                    (exact_unit, DrainRate { drain: exact_drain, period: 1 }),
                    "exact where it can be"
                );
            }
            // Exactly the rate of the quota.
            let (found, wanted) =
                (u128::from(rate.drain) * u128::from(per.as_micros()), u128::from(limit) * u128::from(unit));
            assert_eq!(found, wanted * u128::from(rate.period), "{limit} per {per}");
            assert!(rate.period == 1 || rate.drain >= rate.period, "a unit takes longer than 1 µs: {rate:?}");
            let (base, units) = (Timestamp::from_micros((1 << 50) + next(1 << 40)), next(capacity * unit) + 1);
            let at = rate.drained_at(base, units);
            assert!(rate.drained(base, at) >= units, "{rate:?} {units} from {base}");
            assert!(rate.drained(base, at - Span::from_micros(1)) < units, "{rate:?} {units} from {base}");
            let exact = (u128::from(units) * u128::from(rate.period)).div_ceil(u128::from(rate.drain));
            assert!(u128::from(at.since(base).as_micros()).abs_diff(exact) <= 1, "{rate:?} {units} from {base}");
        }
    }

    #[test]
    fn the_largest_capacity_is_the_largest() {
        let mut next = numbers();
        for _ in 0..100_000 {
            let (bits, more) = (next(41), next(49));
            let (limit, per) = (1 + next(1 << bits), Span::from_micros(1 + next(1 << more)));
            let most = DrainRate::max_capacity(limit, per);
            assert!(DrainRate::of(most, limit, per).is_some(), "{most} at {limit} per {per}");
            let exact = DrainRate::of(most + 1, limit, per).is_some_and(|(_, rate)| rate.period == 1);
            assert!(exact || DrainRate::of(most + 1, limit, per).is_none(), "{} at {limit} per {per}", most + 1);
        }
    }
}
