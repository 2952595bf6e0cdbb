//! Instant in microseconds since the Unix epoch.

use std::{
    fmt, ops,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::Span;

/// An instant in microseconds since the Unix epoch. Sums and differences with a [`Span`] saturate.
///
/// The time between two instants is [`since`](Self::since). Adding two instants has no meaning and does not compile:
///
/// ```compile_fail
/// use ratekeeper_core::Timestamp;
/// let _ = Timestamp::EPOCH + Timestamp::EPOCH;
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The latest instant.
    pub const MAX: Self = Self(u64::MAX);

    /// Microseconds since the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Seconds since the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if that instant is later than this one.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Span> for Timestamp {
    type Output = Self;

    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_micros()))
    }
}

impl ops::Sub<Span> for Timestamp {
    type Output = Self;

    /// The epoch if the result would be earlier than that.
    #[inline]
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.as_micros()))
    }
}

/// Rounded up to whole microseconds; the epoch for times before it.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Span::from_duration(elapsed).as_micros())
    }
}

/// Instants from 2^53 µs on, after the year 2255, become that instant: some systems cannot represent later ones.
impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_micros(timestamp.0.min(1 << 53))
    }
}

/// Seconds since the epoch with six decimals: `1700000000.000001`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let noon = Timestamp::from_secs(43_200);
        assert_eq!(noon + Span::SECOND, Timestamp::from_secs(43_201));
        assert_eq!(noon - Span::DAY, Timestamp::EPOCH);
        assert_eq!(Timestamp::MAX + Span::MICROSECOND, Timestamp::MAX);
        assert_eq!((noon + Span::SECOND).since(noon), Span::SECOND);
        assert_eq!(noon.since(noon + Span::SECOND), Span::ZERO);
    }

    #[test]
    fn system_time_converts_both_ways() {
        let instant = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(Timestamp::from(SystemTime::from(instant)), instant);
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::EPOCH);
        assert_eq!(Timestamp::from(SystemTime::from(Timestamp::MAX)), Timestamp::from_micros(1 << 53));
    }

    #[test]
    fn display_is_in_seconds() {
        assert_eq!(Timestamp::from_micros(1_700_000_000_000_001).to_string(), "1700000000.000001");
    }
}
