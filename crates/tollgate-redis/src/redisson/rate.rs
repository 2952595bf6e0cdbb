//! "10 permits per second, all clients together": a rate, checked before anything is sent.

use std::time::Duration;

use super::error::RateError;

/// Whom a rate is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RateType {
    /// All clients share it: Redisson's `OVERALL`.
    Overall,
    /// Each client has one of its own: Redisson's `PER_CLIENT`.
    PerClient,
}

/// How many permits there are per interval, for whom, and how long an idle limiter is remembered.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::redisson::Rate;
///
/// let rate = Rate::overall(10, Duration::from_secs(1))?.keep_alive(Duration::from_secs(60))?;
/// assert!(Rate::overall(10, Duration::from_micros(500)).is_err(), "Java would take this for 0");
/// # Ok::<(), tollgate_redis::redisson::RateError>(())
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
    /// So many permits per interval.
    pub fn new(kind: RateType, permits: u64, interval: Duration) -> Result<Self, RateError> {
        match permits {
            0 => return Err(RateError::Zero),
            rate if rate > MAX_RATE => return Err(RateError::TooHigh { rate, max: MAX_RATE }),
            _ => {}
        }
        Ok(Self { kind, permits, interval_ms: whole_millis(interval)?, keep_alive_ms: 0 })
    }

    /// So many for all clients together.
    pub fn overall(permits: u64, interval: Duration) -> Result<Self, RateError> {
        Self::new(RateType::Overall, permits, interval)
    }

    /// So many for each client.
    pub fn per_client(permits: u64, interval: Duration) -> Result<Self, RateError> {
        Self::new(RateType::PerClient, permits, interval)
    }

    /// Forgets the limiter, rate and all, when nobody has used it for so long: at least the interval.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Result<Self, RateError> {
        let millis = whole_millis(keep_alive)?;
        if millis < self.interval_ms {
            return Err(RateError::KeepAliveTooShort { keep_alive, interval: self.interval() });
        }
        self.keep_alive_ms = millis;
        Ok(self)
    }

    /// Whom it is for.
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

    /// How long an idle limiter is remembered; for ever if nothing is said.
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

    /// What somebody else has written is taken as it is, a rate of 0 included.
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

/// Doubles are exact below 2^53; Redisson's own scripts lose their way at 10^17.
const MAX_RATE: u64 = (1 << 53) - 1;
/// A hundred years. A moment and a span of this size still add up exactly, in milliseconds.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_java_would_cut_off_is_refused() {
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
