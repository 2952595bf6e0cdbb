//! Rules: a named quota, its algorithm, and what to do when the store cannot decide.
//!
//! A [`Rule`] is a description; [`Rule::compile`] validates it and computes the exact integers of the algorithm.
//!
//! What only one algorithm has is an argument of its constructor, so that it cannot be applied to another:
//!
//! ```compile_fail
//! use ratekeeper_core::{Quota, Rule};
//!
//! let rule = Rule::sliding_log("log", Quota::per_second(10)).stepwise();
//! ```

mod compile;

pub(crate) use compile::check_name;

use std::time::Duration;

use crate::{calendar::UtcOffset, local_calendar::LocalCalendar, quota::Quota, time::Span};

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
    /// Blocks a key after as many denials as the quota has permits, within its period.
    AutoBlock {
        /// Length of a first block.
        block: Span,
        /// How much longer each further block is.
        grow: u64,
        /// Length of the longest block.
        at_most: Span,
    },
}

/// The numbers of an automatic block: so many denials within a span, and for how long the key is then blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlockAfter {
    denials: u64,
    within: Span,
    block: Span,
    grow: u64,
    at_most: Option<Span>,
}

impl BlockAfter {
    /// A block of this length after so many denials of a key within a span.
    pub fn new(denials: u64, within: Duration, block: Duration) -> Self {
        let (within, block) = (Span::from_duration(within), Span::from_duration(block));
        Self { denials, within, block, grow: 1, at_most: None }
    }

    /// Each further block is `grow` times as long as the one before it, up to `at_most`. After a quiet time as long as
    /// the last block, it starts over.
    #[must_use]
    pub fn growing(mut self, grow: u64, at_most: Duration) -> Self {
        (self.grow, self.at_most) = (grow, Some(Span::from_duration(at_most)));
        self
    }
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
    /// With the calendar day, week, month or year, in a stated offset.
    Calendar(UtcOffset),
    /// With the calendar of a place: its time zone, first weekday and first day of months.
    Local(LocalCalendar),
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

    /// An automatic block: admits everything until the policy's other rules have denied a key so often. A denial that
    /// counts is written to the store. Without the store there are no automatic blocks.
    pub fn auto_block(name: impl Into<String>, after: BlockAfter) -> Self {
        let BlockAfter { denials, within, block, grow, at_most } = after;
        let at_most = at_most.unwrap_or(block);
        Self::new(name, Quota::per_micros(denials, within), AlgorithmSpec::AutoBlock { block, grow, at_most })
            .on_store_failure(OnStoreFailure::Open)
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
            Self::AutoBlock { .. } => "auto_block",
        }
    }
}

/// Slices of a sliding counter by default: permits return up to a tenth of the window late.
pub const DEFAULT_BUCKETS: u32 = 10;
