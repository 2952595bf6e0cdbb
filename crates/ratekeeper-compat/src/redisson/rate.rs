//! Rate of a limiter: permits per interval, overall or per client, validated on construction.

use std::time::Duration;

use super::error::RateError;

/// Which clients share a rate.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RateType {
    /// All clients share it: Redisson's `OVERALL`.
    Overall,
    /// Each client has the whole rate: Redisson's `PER_CLIENT`.
    PerClient,
}

/// Permits per interval, for all clients or for each, and the keep-alive time of an idle limiter.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper_compat::redisson::Rate;
///
/// let rate = Rate::overall(10, Duration::from_secs(1))?.keep_alive(Duration::from_secs(60))?;
/// assert!(Rate::overall(10, Duration::from_micros(500)).is_err(), "Java would take this for 0");
/// # Ok::<(), ratekeeper_compat::redisson::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Rate {
    kind: RateType,
    permits: u64,
    interval_ms: u64,
    /// 0 for none.
    keep_alive_ms: u64,
}

impl Rate {
    /// A rate of `permits` per interval.
    pub fn new(kind: RateType, permits: u64, interval: Duration) -> Result<Self, RateError> {
        match permits {
            0 => return Err(RateError::Zero),
            rate if rate > MAX_RATE => return Err(RateError::TooHigh { rate, max: MAX_RATE }),
            _ => {}
        }
        Ok(Self { kind, permits, interval_ms: whole_millis(interval)?, keep_alive_ms: 0 })
    }

    /// A rate that all clients share.
    pub fn overall(permits: u64, interval: Duration) -> Result<Self, RateError> {
        Self::new(RateType::Overall, permits, interval)
    }

    /// A rate for each client.
    pub fn per_client(permits: u64, interval: Duration) -> Result<Self, RateError> {
        Self::new(RateType::PerClient, permits, interval)
    }

    /// Lets the limiter, its rate included, expire after this time without use: at least the interval.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Result<Self, RateError> {
        let millis = whole_millis(keep_alive)?;
        if millis < self.interval_ms {
            return Err(RateError::KeepAliveTooShort { keep_alive, interval: self.interval() });
        }
        self.keep_alive_ms = millis;
        Ok(self)
    }

    /// Which clients share it.
    pub fn kind(&self) -> RateType {
        self.kind
    }

    /// Permits per interval.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// How long a grant counts.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// The time after which an idle limiter expires; `None` if it does not.
    pub fn keep_alive_time(&self) -> Option<Duration> {
        (self.keep_alive_ms > 0).then(|| Duration::from_millis(self.keep_alive_ms))
    }

    /// Rate, interval, type and keep-alive time, as Redisson writes them.
    pub(super) fn words(&self) -> [Vec<u8>; 4] {
        let kind = match self.kind {
            RateType::Overall => 0,
            RateType::PerClient => 1,
        };
        [self.permits, self.interval_ms, kind, self.keep_alive_ms].map(|number| number.to_string().into_bytes())
    }

    /// Reads a stored rate without validation: another client may have written a rate of 0.
    pub(super) fn read(permits: &[u8], interval: &[u8], kind: &[u8], keep_alive: Option<&[u8]>) -> Option<Self> {
        let kind = if kind == b"1" { RateType::PerClient } else { RateType::Overall };
        let keep_alive_ms = keep_alive.map_or(Some(0), number)?;
        Some(Self { kind, permits: number(permits)?, interval_ms: number(interval)?, keep_alive_ms })
    }
}

fn whole_millis(span: Duration) -> Result<u64, RateError> {
    if span > LONGEST {
        return Err(RateError::TooLong { span, max: LONGEST });
    }
    match u64::try_from(span.as_millis()) {
        Ok(millis) if millis > 0 && Duration::from_millis(millis) == span => Ok(millis),
        _ => Err(RateError::NotInMillis { span }),
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Doubles are exact below 2^53; Redisson's own scripts fail at 10^17.
const MAX_RATE: u64 = (1 << 53) - 1;
/// A hundred years. The sum of a timestamp and this is still exact, in milliseconds.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn durations_that_java_would_truncate_are_refused() {
        for span in [Duration::ZERO, Duration::from_micros(500), Duration::from_micros(1_500)] {
            assert_eq!(Rate::overall(1, span), Err(RateError::NotInMillis { span }));
        }
        assert_eq!(Rate::overall(0, SECOND), Err(RateError::Zero));
        assert!(matches!(Rate::overall(1 << 53, SECOND), Err(RateError::TooHigh { .. })));
        assert!(matches!(Rate::overall(1, Duration::MAX), Err(RateError::TooLong { .. })));
        let short = Rate::overall(1, 5 * SECOND).unwrap().keep_alive(SECOND);
        assert_eq!(short, Err(RateError::KeepAliveTooShort { keep_alive: SECOND, interval: 5 * SECOND }));
    }

    #[test]
    fn a_rate_is_written_as_redisson_writes_it_and_read_back() {
        let rate = Rate::per_client(7, SECOND).unwrap().keep_alive(2 * SECOND).unwrap();
        let words = rate.words();
        assert_eq!(words, [b"7".to_vec(), b"1000".to_vec(), b"1".to_vec(), b"2000".to_vec()]);
        assert_eq!(Rate::read(b"7", b"1000", b"1", Some(b"2000")), Some(rate));
        let before_3_38 = Rate::read(b"7", b"1000", b"0", None).unwrap();
        assert_eq!(before_3_38.keep_alive_time(), None);
    }
}
