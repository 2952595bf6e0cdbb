//! Rules: a named quota, its algorithm, and what to do when the store cannot decide.
//!
//! A [`Rule`] is a description; [`Rule::compile`] validates it and computes the exact integers of the algorithm. Zero,
//! overflow and contradictions are rejected here, before any algorithm sees them.
//!
//! What only one algorithm has is an argument of its constructor, so that it cannot be applied to another:
//!
//! ```compile_fail
//! use ratekeeper_core::{Quota, Rule};
//!
//! let rule = Rule::sliding_log("log", Quota::per_second(10)).stepwise();
//! ```

use std::time::Duration;

use crate::{
    algorithm::{AnyAlgorithm, Bucket, Counter, Leases, Log, Schedule, Stepwise, Window},
    bounds::{MAX_BUCKETS, MAX_CAPACITY_UNITS, MAX_LEASES, MAX_LOG_LIMIT, MAX_NAME_BYTES, MAX_PERIOD, MAX_PERMITS},
    calendar::{Calendar, CalendarUnit, UtcOffset},
    error::{Problem, RuleError},
    quota::{Period, Quota},
    time::Span,
};

/// The description of one limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    name: String,
    quota: Quota,
    algorithm: AlgorithmSpec,
    on_store_failure: OnStoreFailure,
    shadow: bool,
    enabled: bool,
    count_refused: bool,
}

/// An algorithm and its parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AlgorithmSpec {
    /// Starts full, refills at the rate, admits bursts. GCRA is the same algorithm.
    TokenBucket {
        /// Continuously, or all at once.
        refill: Refill,
    },
    /// Fills with every request, leaks at the rate. Shaped, it delays each request until its own drop leaks.
    LeakyBucket {
        /// Delay requests instead of admitting bursts.
        shaped: bool,
    },
    /// Counts per window and starts again with the next.
    FixedWindow {
        /// Where windows begin.
        align: Align,
    },
    /// Stores every admission; exact in every window.
    SlidingLog,
    /// Stores a count per slice of the window. Never admits too many; a permit returns up to one slice late.
    SlidingCounter {
        /// How many slices.
        buckets: u32,
    },
    /// At most so many leases at once.
    Concurrency {
        /// Time after which a lease that is not renewed expires.
        lease: Span,
    },
}

/// How a token bucket refills.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Refill {
    /// A fraction every microsecond.
    #[default]
    Continuous,
    /// The whole limit at once, every period.
    Stepwise,
}

/// Where a fixed window begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Align {
    /// At multiples of the period since the Unix epoch.
    #[default]
    Epoch,
    /// With a key's first admitted request.
    FirstRequest,
    /// With the calendar day, week or month, in a stated offset.
    Calendar(UtcOffset),
}

/// What a rule decides when its store cannot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnStoreFailure {
    /// Admit the request.
    Open,
    /// Deny it.
    Closed,
    /// Decide by a limiter in this process with this node's share of the limit.
    #[default]
    Local,
}

/// Constructors, one per algorithm
impl Rule {
    /// A token bucket that refills continuously.
    pub fn token_bucket(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::TokenBucket { refill: Refill::Continuous })
    }

    /// The continuous token bucket under its other name.
    pub fn gcra(name: impl Into<String>, quota: Quota) -> Self {
        Self::token_bucket(name, quota)
    }

    /// A token bucket that refills `limit` permits at once every period.
    pub fn token_bucket_stepwise(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::TokenBucket { refill: Refill::Stepwise })
    }

    /// A leaky bucket used as a meter.
    pub fn leaky_bucket(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::LeakyBucket { shaped: false })
    }

    /// A leaky bucket that delays each admitted request until its own drop leaks, for an even outflow.
    pub fn leaky_bucket_shaped(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::LeakyBucket { shaped: true })
    }

    /// A fixed window aligned to the epoch.
    pub fn fixed_window(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::FixedWindow { align: Align::Epoch })
    }

    /// A fixed window with another alignment.
    pub fn fixed_window_aligned(name: impl Into<String>, quota: Quota, align: Align) -> Self {
        Self::new(name, quota, AlgorithmSpec::FixedWindow { align })
    }

    /// An exact sliding window.
    pub fn sliding_log(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::SlidingLog)
    }

    /// A sliding window in ten slices.
    pub fn sliding_counter(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, AlgorithmSpec::SlidingCounter { buckets: DEFAULT_BUCKETS })
    }

    /// A sliding window in this many slices.
    pub fn sliding_counter_with(name: impl Into<String>, quota: Quota, buckets: u32) -> Self {
        Self::new(name, quota, AlgorithmSpec::SlidingCounter { buckets })
    }

    /// At most `limit` leases at once. A lease that is not renewed for `lease` expires.
    pub fn concurrency(name: impl Into<String>, limit: u64, lease: Duration) -> Self {
        let lease = Span::from_duration(lease);
        Self::new(name, Quota::per_micros(limit, lease), AlgorithmSpec::Concurrency { lease })
    }

    /// Any algorithm, for readers of rule files.
    pub fn new(name: impl Into<String>, quota: Quota, algorithm: AlgorithmSpec) -> Self {
        Self {
            name: name.into(),
            quota,
            algorithm,
            on_store_failure: OnStoreFailure::default(),
            shadow: false,
            enabled: true,
            count_refused: false,
        }
    }
}

/// Settings of any rule
impl Rule {
    /// What to decide when the store cannot.
    #[must_use]
    pub fn on_store_failure(mut self, answer: OnStoreFailure) -> Self {
        self.on_store_failure = answer;
        self
    }

    /// Evaluate and count, but never deny.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// A disabled rule is validated and otherwise left out.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Count refused requests too: a refused take is charged as much of its cost as the rule has left, and a take of 0 is
    /// refused while nothing is left. The count ends at the limit, so refused requests keep a key locked for at most as
    /// long as the rule takes to recover. An error for a concurrency rule: a refused request holds nothing.
    #[must_use]
    pub fn count_refused(mut self, count: bool) -> Self {
        self.count_refused = count;
        self
    }
}

/// Accessors
impl Rule {
    /// The rule's name, unique in its policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> AlgorithmSpec {
        self.algorithm
    }

    /// What it decides when the store cannot.
    pub fn failure_answer(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// Whether it is evaluated but not enforced.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether refused requests are charged as well.
    pub fn counts_refused(&self) -> bool {
        self.count_refused
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }
}

/// Compilation
impl Rule {
    /// Validates the rule and computes the integers of its algorithm.
    pub fn compile(&self) -> Result<AnyAlgorithm, RuleError> {
        self.try_compile().map_err(|problem| RuleError { rule: self.name.clone(), problem })
    }

    fn try_compile(&self) -> Result<AnyAlgorithm, Problem> {
        check_name("name", &self.name)?;
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
        }
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
            Period::Month => Err(Problem::new(
                "per",
                "1mo",
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
            let (_, unit) = crate::algorithm::lowest_terms(limit, per);
            let most = (MAX_CAPACITY_UNITS / unit).max(1);
            let remedy = format!(
                "at {limit} per {per} the most that stays exact is {most}; lower it, or choose a limit and per with a common factor"
            );
            Problem::new(field, capacity, "too much to count exactly", remedy)
        })
    }

    fn schedule(&self, align: Align) -> Result<Schedule, Problem> {
        let offset = match align {
            Align::Epoch => return self.checked_span().map(Schedule::Epoch),
            Align::FirstRequest => return self.checked_span().map(Schedule::FirstRequest),
            Align::Calendar(offset) => offset,
        };
        if offset.as_minutes().unsigned_abs() > UtcOffset::MAX_MINUTES.unsigned_abs() {
            return Err(Problem::new("utc_offset", offset, "further than any clock on Earth", "use -18:00 to +18:00"));
        }
        let unit = match self.quota.period() {
            Period::Span(Span::DAY) => CalendarUnit::Day,
            Period::Span(Span::WEEK) => CalendarUnit::Week,
            Period::Month => CalendarUnit::Month,
            Period::Span(_) => {
                let remedy = "use 1d, 1w or 1mo, or align: epoch";
                return Err(Problem::new("per", self.quota.period(), "which is no calendar period", remedy));
            }
        };
        Ok(Schedule::Calendar(Calendar { unit, offset }))
    }
}

impl AlgorithmSpec {
    /// The word for it in rule files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TokenBucket { .. } => "token_bucket",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter { .. } => "sliding_counter",
            Self::Concurrency { .. } => "concurrency",
        }
    }
}

/// A name people and metrics can on_change: not empty, not long, no control characters.
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

/// Slices of a sliding counter by default: permits return up to a tenth of the window late.
pub const DEFAULT_BUCKETS: u32 = 10;
