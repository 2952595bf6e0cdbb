//! Length of time in whole microseconds.

use std::{fmt, ops, time::Duration};

/// A length of time in whole microseconds. Sums and differences saturate: a span is never negative.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);
    /// One microsecond, the unit of all spans.
    pub const MICROSECOND: Self = Self(1);
    /// One millisecond.
    pub const MILLISECOND: Self = Self(1_000);
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

    /// Whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// The duration in whole microseconds, rounded up, so that a wait is never cut short.
    pub fn from_duration(duration: Duration) -> Self {
        let micros = duration.as_nanos().div_ceil(1_000);
        Self(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The number of microseconds.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: the unit of `Retry-After` and of redis-cell.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// The same length as a [`Duration`].
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.as_duration()
    }
}

impl ops::Add for Span {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl ops::Sub for Span {
    type Output = Self;

    /// Zero if `other` is longer.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The largest unit that expresses the span exactly: `900ms`, `90s`, `1h`, `333334us`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Span::WEEK.0, "w"),
            (Span::DAY.0, "d"),
            (Span::HOUR.0, "h"),
            (Span::MINUTE.0, "m"),
            (Span::SECOND.0, "s"),
            (Span::MILLISECOND.0, "ms"),
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
    fn display_uses_the_largest_exact_unit() {
        let shown = |micros| Span::from_micros(micros).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(900_000), "900ms");
        assert_eq!(shown(90_000_000), "90s");
        assert_eq!(shown(7 * 86_400_000_000), "1w");
        assert_eq!(shown(333_334), "333334us");
    }

    #[test]
    fn durations_round_up_to_the_next_microsecond() {
        assert_eq!(Span::from_duration(Duration::from_nanos(1)), Span::from_micros(1));
        assert_eq!(Span::from_duration(Duration::from_micros(7)), Span::from_micros(7));
        assert_eq!(Span::from_duration(Duration::MAX), Span::from_micros(u64::MAX));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Span::from_micros(1) - Span::from_micros(2), Span::ZERO);
        assert_eq!(Span::from_micros(u64::MAX) + Span::from_micros(1), Span::from_micros(u64::MAX));
        assert_eq!(Span::from_micros(1).as_secs_ceil(), 1);
        assert_eq!(Span::ZERO.as_secs_ceil(), 0);
    }
}
