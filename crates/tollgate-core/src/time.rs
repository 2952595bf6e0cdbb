//! Instants and spans as whole microseconds. Arithmetic on time lives here; no reading of a clock does.
//!
//! One type serves both, as in a ledger: an instant is a span since the Unix epoch. Everything stays below
//! 2^53 because the Lua twin of every algorithm computes in doubles, which are exact up to there.

use std::{fmt, ops, time::Duration};

/// Microseconds: an instant (since the Unix epoch) or a span.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Micros(pub u64);

impl Micros {
    /// No time at all; as an instant, the Unix epoch.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One minute.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// One hour.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Self = Self(24 * Self::HOUR.0);
    /// One week of seven days.
    pub const WEEK: Self = Self(7 * Self::DAY.0);

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// The span in whole microseconds, rounded up: a wait cut short would break its promise.
    pub fn from_duration(span: Duration) -> Self {
        let micros = span.as_nanos().div_ceil(1_000);
        Self(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The bare number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Later by `span`, stopping at the end of time instead of wrapping.
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`, or none if that lies ahead.
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The span in whole seconds, rounded up, as HTTP and redis-cell tell waits.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

impl ops::Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl ops::Sub for Micros {
    type Output = Self;
    /// Spans have no sign: going below zero stops at zero.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

/// The largest unit that tells the span exactly: `900ms`, `90s`, `1h`, `333334us`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Micros::WEEK.0, "w"),
            (Micros::DAY.0, "d"),
            (Micros::HOUR.0, "h"),
            (Micros::MINUTE.0, "m"),
            (Micros::SECOND.0, "s"),
            (1_000, "ms"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        for (size, unit) in UNITS {
            if self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_largest_exact_unit() {
        let told = |micros| Micros(micros).to_string();
        assert_eq!(told(0), "0s");
        assert_eq!(told(900_000), "900ms");
        assert_eq!(told(90_000_000), "90s");
        assert_eq!(told(7 * 86_400_000_000), "1w");
        assert_eq!(told(333_334), "333334us");
    }

    #[test]
    fn durations_round_up_to_the_next_microsecond() {
        assert_eq!(Micros::from_duration(Duration::from_nanos(1)), Micros(1));
        assert_eq!(Micros::from_duration(Duration::from_micros(7)), Micros(7));
        assert_eq!(Micros::from_duration(Duration::MAX), Micros(u64::MAX));
    }

    #[test]
    fn arithmetic_stops_at_its_ends() {
        assert_eq!(Micros(1) - Micros(2), Micros::ZERO);
        assert_eq!(Micros(u64::MAX) + Micros(1), Micros(u64::MAX));
        assert_eq!(Micros(1).as_secs_ceil(), 1);
        assert_eq!(Micros::ZERO.as_secs_ceil(), 0);
    }
}
