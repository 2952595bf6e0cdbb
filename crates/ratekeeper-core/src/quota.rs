//! Quota: the numbers of a limit, such as "100 per minute, burst 20".
//!
//! A [`Quota`] is not validated. Validation happens when a [`Rule`](crate::Rule) becomes part of a
//! [`Policy`](crate::Policy); an error names the field.

use std::{fmt, time::Duration};

use crate::time::Span;

/// Permits per period, and the burst.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quota {
    limit: u64,
    per: Period,
    burst: Option<u64>,
}

/// The time a limit is counted over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Period {
    /// A fixed span.
    Span(Span),
    /// A calendar month; only for fixed windows aligned to the calendar.
    Month,
    /// A calendar year; only for fixed windows aligned to the calendar.
    Year,
}

/// Constructors
impl Quota {
    /// `limit` permits every second.
    pub const fn per_second(limit: u64) -> Self {
        Self::per_micros(limit, Span::SECOND)
    }

    /// `limit` permits every minute.
    pub const fn per_minute(limit: u64) -> Self {
        Self::per_micros(limit, Span::MINUTE)
    }

    /// `limit` permits every hour.
    pub const fn per_hour(limit: u64) -> Self {
        Self::per_micros(limit, Span::HOUR)
    }

    /// `limit` permits every 24 hours.
    pub const fn per_day(limit: u64) -> Self {
        Self::per_micros(limit, Span::DAY)
    }

    /// `limit` permits every seven days.
    pub const fn per_week(limit: u64) -> Self {
        Self::per_micros(limit, Span::WEEK)
    }

    /// `limit` permits every calendar month, for fixed windows aligned to the calendar.
    pub const fn per_month(limit: u64) -> Self {
        Self { limit, per: Period::Month, burst: None }
    }

    /// `limit` permits every calendar year, for fixed windows aligned to the calendar.
    pub const fn per_year(limit: u64) -> Self {
        Self { limit, per: Period::Year, burst: None }
    }

    /// `limit` permits every `period`.
    pub fn per(limit: u64, period: Duration) -> Self {
        Self::per_micros(limit, Span::from_duration(period))
    }

    /// `limit` permits every `period`, in microseconds.
    pub const fn per_micros(limit: u64, period: Span) -> Self {
        Self { limit, per: Period::Span(period), burst: None }
    }

    /// At most `burst` permits at one instant; by default, as many as the limit.
    #[must_use]
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// The burst under its name in a leaky bucket: the capacity.
    #[must_use]
    pub const fn capacity(self, capacity: u64) -> Self {
        self.burst(capacity)
    }
}

/// Accessors
impl Quota {
    /// Permits per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period.
    pub const fn period(&self) -> Period {
        self.per
    }

    /// The burst; the limit if no burst was set.
    pub const fn burst_or_limit(&self) -> u64 {
        match self.burst {
            Some(burst) => burst,
            None => self.limit,
        }
    }

    /// Whether a burst was set.
    pub const fn names_burst(&self) -> bool {
        self.burst.is_some()
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.limit, self.per)?;
        match self.burst {
            Some(burst) => write!(f, ", burst {burst}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Month => f.write_str("1mo"),
            Self::Year => f.write_str("1y"),
        }
    }
}
