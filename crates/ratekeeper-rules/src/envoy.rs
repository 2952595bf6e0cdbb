//! Envoy format (envoyproxy/ratelimit): the validated tree of descriptors.
//!
//! A request's descriptor is a list of (key, value) entries. [`matching`](crate::matching) walks the tree with them.
//!
//! As in envoyproxy/ratelimit, every limit counts refused requests
//! ([`Rule::count_refused`](ratekeeper_core::Rule::count_refused)), and windows are fixed and aligned to the epoch,
//! with a month of 30 and a year of 365 days. The field `algorithm` selects another algorithm.

mod check;
mod metadata;
mod wildcard;

pub(crate) use check::check;
use ratekeeper_core::{Policy, Span};
use serde_json::{Map, Value};

pub use self::wildcard::Wildcard;

/// One level of a descriptor.
#[derive(Clone, Debug)]
pub struct EnvoyDescriptor {
    /// The entry's key; not empty.
    pub key: String,
    /// The values that match.
    pub value: EnvoyValue,
    /// The limit of requests whose last entry matches this level. `None`: such requests are not limited.
    pub limit: Option<EnvoyLimit>,
    /// Whether the limit is evaluated and counted, but never enforced. The rule of [`Allowance::Limited`] has the same
    /// flag.
    pub shadow_mode: bool,
    /// Whether metrics are counted by the values of the request.
    pub detailed_metric: bool,
    /// Whether the name of the metric contains the value of this entry.
    pub value_to_metric: bool,
    /// Whether all values that match the wildcard share one count.
    pub share_threshold: bool,
    /// Whether the limit is in quota mode: a request is refused only if all its limits in quota mode are exceeded. The
    /// metadata of the reply names those that are.
    pub quota_mode: bool,
    /// Metadata of replies to requests within this limit.
    pub metadata: Map<String, Value>,
    /// The next level, in the order of the file. Of several wildcards that match, the first one applies.
    pub descriptors: Vec<EnvoyDescriptor>,
    /// The path in the tree, which is also the policy name of the limit.
    pub name: String,
    /// The line in which the descriptor begins, from 1.
    pub line: usize,
}

/// The values of a descriptor entry that match.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum EnvoyValue {
    /// Any value; each value has a separate count.
    Any,
    /// Only this value.
    Literal(String),
    /// Values that match a pattern with at least one `*`.
    Wildcard(Wildcard),
}

/// The limit of one descriptor.
#[derive(Clone, Debug)]
pub struct EnvoyLimit {
    /// The requests that are admitted.
    pub allowance: Allowance,
    /// The name that `replaces` of other limits refers to.
    pub name: Option<String>,
    /// Names of limits that this one replaces if both apply to a request.
    pub replaces: Vec<String>,
}

/// The requests that a limit admits.
#[derive(Clone, Debug)]
pub enum Allowance {
    /// All requests, without counting.
    Unlimited,
    /// No requests: `requests_per_unit: 0`.
    RefuseAll {
        /// The name that a policy of this descriptor would have: its path.
        policy: String,
        /// The limit's name, or that of its unit.
        rule: String,
        /// The unit that replies show with the 0.
        unit: EnvoyUnit,
    },
    /// Requests that the single rule of a policy admits.
    Limited {
        /// The policy; its name is the descriptor's path, its domain that of the file.
        policy: Policy,
        /// The unit in the file.
        unit: EnvoyUnit,
        /// The number in the file.
        requests_per_unit: u64,
    },
}

/// A unit of time.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EnvoyUnit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// Seven days. Windows begin on Thursdays, as the epoch does.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl EnvoyUnit {
    /// The length of the unit.
    pub const fn span(self) -> Span {
        match self {
            Self::Second => Span::SECOND,
            Self::Minute => Span::MINUTE,
            Self::Hour => Span::HOUR,
            Self::Day => Span::DAY,
            Self::Week => Span::WEEK,
            Self::Month => Span::from_micros(30 * Span::DAY.as_micros()),
            Self::Year => Span::from_micros(365 * Span::DAY.as_micros()),
        }
    }

    /// The name of the unit in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl EnvoyValue {
    fn of(word: Option<&str>) -> Self {
        match word {
            None | Some("") => Self::Any,
            Some(word) => match Wildcard::new(word) {
                Some(wildcard) => Self::Wildcard(wildcard),
                None => Self::Literal(word.to_owned()),
            },
        }
    }
}
