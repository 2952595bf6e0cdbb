//! Compilation of rules: validation, and the exact integers of the algorithm.
//!
//! Zero, overflow and contradictions are rejected here, before any algorithm sees them. An error names the field, the
//! value found and a remedy.

use super::{AlgorithmSpec, Align, Refill, Rule};
use crate::{
    algorithm::{AnyAlgorithm, AutoBlock, Bucket, Counter, DrainRate, Leases, Log, Schedule, Stepwise, Window},
    bounds::{
        MAX_BUCKETS, MAX_DENIALS, MAX_GROWTH, MAX_LEASES, MAX_LOG_LIMIT, MAX_NAME_BYTES, MAX_PERIOD, MAX_PERMITS,
        MAX_WAIT,
    },
    calendar::{Calendar, CalendarUnit, UtcOffset},
    error::{Problem, RuleError},
    local_calendar::{LocalCalendar, LocalPeriods, Weekday},
    quota::Period,
    time::Span,
    zone::Zone,
};

impl Rule {
    /// Validates the rule and computes the integers of its algorithm.
    pub fn compile(&self) -> Result<AnyAlgorithm, RuleError> {
        self.try_compile().map_err(|problem| RuleError { rule: self.name.clone(), problem })
    }

    fn try_compile(&self) -> Result<AnyAlgorithm, Problem> {
        check_name("name", &self.name)?;
        if let AlgorithmSpec::AutoBlock { block, grow, at_most } = self.algorithm {
            return self.auto_block_numbers(block, grow, at_most);
        }
        let limit = self.checked_limit()?;
        if self.quota.names_burst() && !self.takes_burst() {
            let remedy = format!("leave it out: {} lets the whole limit come at once", self.algorithm.name());
            return Err(Problem::new(
                "burst",
                self.quota.burst_or_limit(),
                "which this algorithm has no use for",
                remedy,
            ));
        }
        match self.algorithm {
            AlgorithmSpec::TokenBucket { refill: Refill::Continuous } => {
                Ok(AnyAlgorithm::Bucket(self.bucket(limit, "burst", false)?))
            }
            AlgorithmSpec::TokenBucket { refill: Refill::Stepwise } => {
                let per = self.checked_span()?;
                let capacity = checked_permits("burst", self.quota.burst_or_limit())?;
                let stepwise = Stepwise::new(capacity, limit, per).ok_or_else(|| {
                    let remedy = "lower it, raise limit, or shorten per: an empty bucket must refill within 35 years";
                    Problem::new("burst", capacity, "too much to refill in countable time", remedy)
                })?;
                Ok(AnyAlgorithm::Stepwise(stepwise))
            }
            AlgorithmSpec::LeakyBucket { shaped } => Ok(AnyAlgorithm::Bucket(self.bucket(limit, "capacity", shaped)?)),
            AlgorithmSpec::FixedWindow { align } => {
                let schedule = self.schedule(align)?;
                Ok(AnyAlgorithm::Window(Window::new(limit, schedule)))
            }
            AlgorithmSpec::SlidingLog => {
                if limit > MAX_LOG_LIMIT {
                    let remedy = format!("use at most {MAX_LOG_LIMIT}, or algorithm: sliding_counter");
                    return Err(Problem::new("limit", limit, "more entries than a log should hold", remedy));
                }
                Ok(AnyAlgorithm::Log(Log::new(limit, self.checked_span()?)))
            }
            AlgorithmSpec::SlidingCounter { buckets } => {
                let window = self.checked_span()?;
                if buckets == 0 || buckets > MAX_BUCKETS || u64::from(buckets) > window.as_micros() {
                    let remedy = format!("use 1 to {}", u64::from(MAX_BUCKETS).min(window.as_micros()));
                    return Err(Problem::new("buckets", buckets, "not a number of slices the window can have", remedy));
                }
                Ok(AnyAlgorithm::Counter(Counter::new(limit, window, buckets)))
            }
            AlgorithmSpec::Concurrency { .. } if self.count_refused => Err(Problem::new(
                "count_refused",
                "true",
                "which concurrency has no use for: a refused request holds nothing",
                "leave it out",
            )),
            AlgorithmSpec::Concurrency { lease } => {
                if limit > MAX_LEASES {
                    let remedy = format!("use at most {MAX_LEASES}");
                    return Err(Problem::new("limit", limit, "more holders than one key should track", remedy));
                }
                check_span("lease", lease)?;
                Ok(AnyAlgorithm::Leases(Leases::new(limit, lease)))
            }
            AlgorithmSpec::AutoBlock { block, grow, at_most } => self.auto_block_numbers(block, grow, at_most),
        }
    }

    fn auto_block_numbers(&self, block: Span, grow: u64, at_most: Span) -> Result<AnyAlgorithm, Problem> {
        let after = self.quota.limit();
        if !(1..=MAX_DENIALS).contains(&after) {
            let remedy = format!("use 1 to {MAX_DENIALS} denials");
            return Err(Problem::new("after", after, "not a number of denials that is counted", remedy));
        }
        let Period::Span(within) = self.quota.period() else {
            return Err(Problem::new(
                "within",
                self.quota.period(),
                "which only the calendar can measure",
                "use a span",
            ));
        };
        for (field, span) in [("within", within), ("for", block), ("at_most", at_most)] {
            check_span(field, span)?;
            if span > MAX_WAIT {
                return Err(Problem::new(field, span, "longer than a block may be", "use at most 100d"));
            }
        }
        if !(1..=MAX_GROWTH).contains(&grow) {
            let remedy = format!("use 1, for blocks of one length, to {MAX_GROWTH}");
            return Err(Problem::new("grow", grow, "not a factor that blocks grow by", remedy));
        }
        if at_most < block {
            return Err(Problem::new(
                "at_most",
                at_most,
                "shorter than the first block",
                format!("use {block} or more"),
            ));
        }
        Ok(AnyAlgorithm::AutoBlock(AutoBlock::new(after, within, block, grow, at_most)))
    }

    fn takes_burst(&self) -> bool {
        matches!(self.algorithm, AlgorithmSpec::TokenBucket { .. } | AlgorithmSpec::LeakyBucket { .. })
    }

    fn checked_limit(&self) -> Result<u64, Problem> {
        checked_permits("limit", self.quota.limit())
    }

    fn checked_span(&self) -> Result<Span, Problem> {
        match self.quota.period() {
            Period::Span(span) => check_span("per", span).map(|()| span),
            Period::Month | Period::Year => Err(Problem::new(
                "per",
                self.quota.period(),
                "which only the calendar can measure",
                "use algorithm: fixed_window with align: calendar, or a span such as 30d",
            )),
        }
    }

    fn bucket(&self, limit: u64, capacity_field: &'static str, shaped: bool) -> Result<Bucket, Problem> {
        let per = self.checked_span()?;
        let field = if self.quota.names_burst() { capacity_field } else { "limit" };
        let capacity = checked_permits(field, self.quota.burst_or_limit())?;
        Bucket::new(capacity, limit, per, shaped).ok_or_else(|| {
            let most = DrainRate::max_capacity(limit, per);
            let remedy = format!("at {limit} per {per}, use at most {most}; or raise limit, or shorten per");
            Problem::new(field, capacity, "too much to count to the microsecond", remedy)
        })
    }

    fn schedule(&self, align: Align) -> Result<Schedule, Problem> {
        let offset = match align {
            Align::Epoch => return self.checked_span().map(Schedule::Epoch),
            Align::FirstRequest => return self.checked_span().map(Schedule::FirstRequest),
            Align::Calendar(offset) => offset,
            Align::Local(calendar) => return self.local_schedule(calendar),
        };
        if offset.as_minutes().unsigned_abs() > UtcOffset::MAX_MINUTES.unsigned_abs() {
            return Err(Problem::new("utc_offset", offset, "further than any clock on Earth", "use -18:00 to +18:00"));
        }
        let unit = match self.quota.period() {
            Period::Span(Span::DAY) => CalendarUnit::Day,
            Period::Span(Span::WEEK) => CalendarUnit::Week,
            Period::Month => CalendarUnit::Month,
            Period::Year => return self.local_schedule(LocalCalendar::new(Zone::fixed(offset))),
            Period::Span(_) => return Err(self.no_calendar_period()),
        };
        Ok(Schedule::Calendar(Calendar { unit, offset }))
    }

    fn local_schedule(&self, calendar: LocalCalendar) -> Result<Schedule, Problem> {
        let unit = match self.quota.period() {
            Period::Span(Span::DAY) => CalendarUnit::Day,
            Period::Span(Span::WEEK) => CalendarUnit::Week,
            Period::Month => CalendarUnit::Month,
            Period::Year => CalendarUnit::Year,
            Period::Span(_) => return Err(self.no_calendar_period()),
        };
        let (week_start, month_day) = (calendar.first_weekday(), calendar.first_month_day());
        if !(1..=31).contains(&month_day) {
            return Err(Problem::new("month_day", month_day, "not a day of a month", "use 1 to 31"));
        }
        if unit != CalendarUnit::Month && month_day != 1 {
            let remedy = "use per: 1mo, or leave it out";
            return Err(Problem::new("month_day", month_day, "which only months have", remedy));
        }
        if unit != CalendarUnit::Week && week_start != Weekday::Monday {
            let remedy = "use per: 1w, or leave it out";
            return Err(Problem::new("week_start", week_start.name(), "which only weeks have", remedy));
        }
        Ok(Schedule::Local(LocalPeriods { unit, calendar }))
    }

    fn no_calendar_period(&self) -> Problem {
        let remedy = "use 1d, 1w, 1mo or 1y, or align: epoch";
        Problem::new("per", self.quota.period(), "which is no calendar period", remedy)
    }
}

/// A name that people and metrics can show: not empty, not long, no control characters.
pub(crate) fn check_name(field: &'static str, name: &str) -> Result<(), Problem> {
    let remedy = format!("use 1 to {MAX_NAME_BYTES} bytes of printable text");
    if name.is_empty() {
        return Err(Problem::new(field, "empty", "so nothing could refer to it", remedy));
    }
    if name.len() > MAX_NAME_BYTES {
        let found = format!("{} bytes long", name.len());
        return Err(Problem::new(field, found, "too long to show", remedy));
    }
    if name.chars().any(char::is_control) {
        return Err(Problem::new(field, format!("{name:?}"), "with control characters", remedy));
    }
    Ok(())
}

fn checked_permits(field: &'static str, permits: u64) -> Result<u64, Problem> {
    match permits {
        0 => Err(Problem::new(
            field,
            0,
            "which refuses every request",
            "use 1 or more, or leave the rule out to admit every request",
        )),
        1..=MAX_PERMITS => Ok(permits),
        _ => Err(Problem::new(
            field,
            permits,
            "beyond what can be counted exactly",
            format!("use at most {MAX_PERMITS}"),
        )),
    }
}

fn check_span(field: &'static str, span: Span) -> Result<(), Problem> {
    if span == Span::ZERO {
        return Err(Problem::new(field, "0s", "which is no time at all", "use a span such as 250ms, 1s or 1h"));
    }
    if span > MAX_PERIOD {
        return Err(Problem::new(field, span, "longer than we keep count", "use at most 3257d"));
    }
    Ok(())
}
