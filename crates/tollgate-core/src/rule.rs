//! A named quota, the algorithm that keeps it, and what to do when the store cannot answer.
//!
//! A [`Rule`] is what people write down; [`Rule::limiting`] checks it and works out the exact integers the algorithm
//! runs on. Zero, overflow and nonsense are settled here, before any algorithm sees them.

use std::time::Duration;

use crate::{
    algorithm::{Bucket, Counter, Leases, Limiting, Log, Schedule, Stepwise, Window},
    bounds::{MAX_BUCKETS, MAX_CAPACITY_UNITS, MAX_LEASES, MAX_LOG_LIMIT, MAX_NAME_BYTES, MAX_PERIOD, MAX_PERMITS},
    calendar::{Calendar, CalendarUnit, UtcOffset},
    error::{Problem, RuleError},
    quota::{Period, Quota},
    time::Micros,
};

/// One limit, as described by people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    name: String,
    quota: Quota,
    algorithm: Algorithm,
    on_store_failure: OnStoreFailure,
    shadow: bool,
    enabled: bool,
    count_refused: bool,
    /// The first refinement that does not apply to the algorithm; [`Rule::limiting`] refuses the rule for it.
    misapplied: Option<Refinement>,
}

/// A builder method that refines one algorithm only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Refinement {
    Stepwise,
    Shaped,
    Align,
    Buckets,
}

/// Which way of counting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Starts full, refills at the rate, spends a burst at once. GCRA is the same meter under another name.
    TokenBucket {
        /// Drop by drop, or in lumps.
        refill: Refill,
    },
    /// Fills with every request, leaks at the rate; shaped, it tells each request when its own drop falls.
    LeakyBucket {
        /// Tell delays instead of letting bursts through.
        shaped: bool,
    },
    /// Counts per window and forgets at its end.
    FixedWindow {
        /// Where windows begin.
        align: Align,
    },
    /// Remembers every admission; exact in every window.
    SlidingLog,
    /// Remembers a count per slice of the window; never over, at most one slice under.
    SlidingCounter {
        /// How many slices.
        buckets: u32,
    },
    /// At most so many holders at once, each for at most the lease.
    Concurrency {
        /// How long a holder may be silent before its permit returns.
        lease: Micros,
    },
}

/// How a token bucket gets its tokens back.
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

/// What a rule answers when its store cannot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnStoreFailure {
    /// Let the request pass.
    Open,
    /// Refuse it.
    Closed,
    /// Ask a limiter in this process that holds this node's share.
    #[default]
    Local,
}

/// Constructors, one per algorithm
impl Rule {
    /// A token bucket that refills continuously.
    pub fn token_bucket(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, Algorithm::TokenBucket { refill: Refill::Continuous })
    }

    /// The continuous token bucket under its other name.
    pub fn gcra(name: impl Into<String>, quota: Quota) -> Self {
        Self::token_bucket(name, quota)
    }

    /// A leaky bucket used as a meter.
    pub fn leaky_bucket(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, Algorithm::LeakyBucket { shaped: false })
    }

    /// A fixed window aligned to the epoch.
    pub fn fixed_window(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, Algorithm::FixedWindow { align: Align::Epoch })
    }

    /// An exact sliding window.
    pub fn sliding_log(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, Algorithm::SlidingLog)
    }

    /// A sliding window in ten slices.
    pub fn sliding_counter(name: impl Into<String>, quota: Quota) -> Self {
        Self::new(name, quota, Algorithm::SlidingCounter { buckets: DEFAULT_BUCKETS })
    }

    /// At most `limit` holders at once; one that is silent for `lease` has let go.
    pub fn concurrency(name: impl Into<String>, limit: u64, lease: Duration) -> Self {
        let lease = Micros::from_duration(lease);
        Self::new(name, Quota::per_micros(limit, lease), Algorithm::Concurrency { lease })
    }

    /// Any algorithm, for readers of rule files.
    pub fn new(name: impl Into<String>, quota: Quota, algorithm: Algorithm) -> Self {
        Self {
            name: name.into(),
            quota,
            algorithm,
            on_store_failure: OnStoreFailure::default(),
            shadow: false,
            enabled: true,
            count_refused: false,
            misapplied: None,
        }
    }
}

/// Refinements. One on a rule of another algorithm than it names is an error of [`Rule::limiting`] and so of
/// [`Policy::new`](crate::Policy::new).
impl Rule {
    /// Token bucket: refill `limit` permits at once every period instead of drop by drop.
    #[must_use]
    pub fn stepwise(self) -> Self {
        self.refine(Refinement::Stepwise, Algorithm::TokenBucket { refill: Refill::Stepwise })
    }

    /// Leaky bucket: tell each request the delay until its own drop, for an even outflow.
    #[must_use]
    pub fn shaped(self) -> Self {
        self.refine(Refinement::Shaped, Algorithm::LeakyBucket { shaped: true })
    }

    /// Fixed window: where windows begin.
    #[must_use]
    pub fn align(self, align: Align) -> Self {
        self.refine(Refinement::Align, Algorithm::FixedWindow { align })
    }

    /// Sliding counter: into how many slices the window is split.
    #[must_use]
    pub fn buckets(self, buckets: u32) -> Self {
        self.refine(Refinement::Buckets, Algorithm::SlidingCounter { buckets })
    }

    /// What to answer when the store cannot.
    #[must_use]
    pub fn on_store_failure(mut self, answer: OnStoreFailure) -> Self {
        self.on_store_failure = answer;
        self
    }

    /// Decide and count, but never refuse.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// A rule that is not enabled is checked for mistakes and otherwise left out.
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

    /// Keeps the algorithm where the refinement is for another one, and remembers the mistake.
    fn refine(mut self, refinement: Refinement, refined: Algorithm) -> Self {
        if std::mem::discriminant(&self.algorithm) == std::mem::discriminant(&refined) {
            self.algorithm = refined;
        } else {
            self.misapplied = self.misapplied.or(Some(refinement));
        }
        self
    }
}

/// What was said
impl Rule {
    /// The rule's name, unique in its policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its numbers.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Its way of counting.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its answer when the store has none.
    pub fn failure_answer(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// Whether it only watches.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether refused requests are charged as well.
    pub fn counts_refused(&self) -> bool {
        self.count_refused
    }

    /// Whether it takes part.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }
}

/// From words to exact integers
impl Rule {
    /// Checks the rule and works out what its algorithm runs on.
    pub fn limiting(&self) -> Result<Limiting, RuleError> {
        self.try_limiting().map_err(|problem| RuleError { rule: self.name.clone(), problem })
    }

    fn try_limiting(&self) -> Result<Limiting, Problem> {
        check_name("name", &self.name)?;
        if let Some(refinement) = self.misapplied {
            let (why, remedy) = refinement.refused();
            return Err(Problem::new("algorithm", self.algorithm.name(), why, remedy));
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
            Algorithm::TokenBucket { refill: Refill::Continuous } => {
                Ok(Limiting::Bucket(self.bucket(limit, "burst", false)?))
            }
            Algorithm::TokenBucket { refill: Refill::Stepwise } => {
                let per = self.checked_span()?;
                let capacity = checked_permits("burst", self.quota.burst_or_limit())?;
                let stepwise = Stepwise::new(capacity, limit, per).ok_or_else(|| {
                    let remedy = "lower it, raise limit, or shorten per: an empty bucket must refill within 35 years";
                    Problem::new("burst", capacity, "too much to refill in countable time", remedy)
                })?;
                Ok(Limiting::Stepwise(stepwise))
            }
            Algorithm::LeakyBucket { shaped } => Ok(Limiting::Bucket(self.bucket(limit, "capacity", shaped)?)),
            Algorithm::FixedWindow { align } => {
                let schedule = self.schedule(align)?;
                Ok(Limiting::Window(Window::new(limit, schedule)))
            }
            Algorithm::SlidingLog => {
                if limit > MAX_LOG_LIMIT {
                    let remedy = format!("use at most {MAX_LOG_LIMIT}, or algorithm: sliding_counter");
                    return Err(Problem::new("limit", limit, "more entries than a log should hold", remedy));
                }
                Ok(Limiting::Log(Log::new(limit, self.checked_span()?)))
            }
            Algorithm::SlidingCounter { buckets } => {
                let window = self.checked_span()?;
                if buckets == 0 || buckets > MAX_BUCKETS || u64::from(buckets) > window.0 {
                    let remedy = format!("use 1 to {}", u64::from(MAX_BUCKETS).min(window.0));
                    return Err(Problem::new("buckets", buckets, "not a number of slices the window can have", remedy));
                }
                Ok(Limiting::Counter(Counter::new(limit, window, buckets)))
            }
            Algorithm::Concurrency { .. } if self.count_refused => Err(Problem::new(
                "count_refused",
                "true",
                "which concurrency has no use for: a refused request holds nothing",
                "leave it out",
            )),
            Algorithm::Concurrency { lease } => {
                if limit > MAX_LEASES {
                    let remedy = format!("use at most {MAX_LEASES}");
                    return Err(Problem::new("limit", limit, "more holders than one key should track", remedy));
                }
                check_span("lease", lease)?;
                Ok(Limiting::Leases(Leases::new(limit, lease)))
            }
        }
    }

    fn takes_burst(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. })
    }

    fn checked_limit(&self) -> Result<u64, Problem> {
        checked_permits("limit", self.quota.limit())
    }

    fn checked_span(&self) -> Result<Micros, Problem> {
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
            Period::Span(Micros::DAY) => CalendarUnit::Day,
            Period::Span(Micros::WEEK) => CalendarUnit::Week,
            Period::Month => CalendarUnit::Month,
            Period::Span(_) => {
                let remedy = "use 1d, 1w or 1mo, or align: epoch";
                return Err(Problem::new("per", self.quota.period(), "which is no calendar period", remedy));
            }
        };
        Ok(Schedule::Calendar(Calendar { unit, offset }))
    }
}

impl Refinement {
    /// Why it is refused on another algorithm, and what would be accepted.
    fn refused(self) -> (&'static str, &'static str) {
        match self {
            Self::Stepwise => ("which .stepwise() does not apply to", "leave it out, or use Rule::token_bucket"),
            Self::Shaped => ("which .shaped() does not apply to", "leave it out, or use Rule::leaky_bucket"),
            Self::Align => ("which .align(..) does not apply to", "leave it out, or use Rule::fixed_window"),
            Self::Buckets => ("which .buckets(..) does not apply to", "leave it out, or use Rule::sliding_counter"),
        }
    }
}

impl Algorithm {
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

/// A name people and metrics can carry: not empty, not long, no control characters.
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
            "which refuses everyone",
            "use 1 or more, or leave the rule out to admit everyone",
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

fn check_span(field: &'static str, span: Micros) -> Result<(), Problem> {
    if span == Micros::ZERO {
        return Err(Problem::new(field, "0s", "which is no time at all", "use a span such as 250ms, 1s or 1h"));
    }
    if span > MAX_PERIOD {
        return Err(Problem::new(field, span, "longer than we keep count", "use at most 3257d"));
    }
    Ok(())
}

/// Slices of a sliding counter when nothing else is said: a tenth of the window is its slack.
pub const DEFAULT_BUCKETS: u32 = 10;
