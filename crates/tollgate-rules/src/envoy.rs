//! The form of envoyproxy/ratelimit: a tree of descriptors, checked and ready to be matched.
//!
//! A request's descriptor is a list of (key, value) entries. At each level the entry with the same key and value wins,
//! else the first wildcard that fits, else the key alone; the limit counts only where the request's entries end. The
//! matching lives with the server; this is what it walks over.
//!
//! Every limit counts refused requests, as that service does ([`Rule::count_refused`](tollgate_core::Rule::count_refused)).
//! Windows are fixed and aligned to the epoch as they are there, with a month of 30 and a year of 365 days, unless
//! `algorithm` names another way of counting.

mod check;
mod metadata;
mod wildcard;

pub(crate) use check::check;
use serde_json::{Map, Value};
use tollgate_core::{Micros, Policy};

pub use self::wildcard::Wildcard;

/// One level of a descriptor.
#[derive(Clone, Debug)]
pub struct EnvoyDescriptor {
    /// The entry's key; not empty.
    pub key: String,
    /// What the entry's value must be.
    pub value: EnvoyValue,
    /// The limit of requests whose entries end here. None, and nothing below: known, and let through.
    pub limit: Option<EnvoyLimit>,
    /// Decide and count, but never refuse. The rule of a [`Allowance::Limited`] knows it as well.
    pub shadow_mode: bool,
    /// Count metrics by the request's own values.
    pub detailed_metric: bool,
    /// Put this entry's value into the name of the metric.
    pub value_to_metric: bool,
    /// All values that fit the wildcard share one count.
    pub share_threshold: bool,
    /// Refuse a request only where all its quotas are over, and say in the reply's metadata which are.
    pub quota_mode: bool,
    /// Fields of the reply's metadata while requests are within this limit.
    pub metadata: Map<String, Value>,
    /// The next level, in the order of the file: of several wildcards the first one wins.
    pub descriptors: Vec<EnvoyDescriptor>,
    /// The way to it through the tree, which is also the name of its limit's policy.
    pub name: String,
    /// The line it begins in.
    pub line: usize,
}

/// What the value of a descriptor entry must be.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum EnvoyValue {
    /// Anything; each value is counted on its own.
    Any,
    /// Exactly this.
    Literal(String),
    /// Anything that fits a pattern with `*` in it.
    Wildcard(Wildcard),
}

/// The limit of one descriptor.
#[derive(Clone, Debug)]
pub struct EnvoyLimit {
    /// What is let through.
    pub allowance: Allowance,
    /// The name that other limits replace it by.
    pub name: Option<String>,
    /// Names of limits that step back when this one applies to the same request.
    pub replaces: Vec<String>,
}

/// What a limit lets through.
#[derive(Clone, Debug)]
pub enum Allowance {
    /// Everything, uncounted.
    Unlimited,
    /// Nothing: `requests_per_unit: 0`.
    RefuseAll {
        /// What a policy in its place would be called: the descriptor's path.
        policy: String,
        /// The limit's name, or that of its unit.
        rule: String,
        /// The unit that replies tell beside the 0.
        unit: EnvoyUnit,
    },
    /// As much as the policy's one rule grants.
    Limited {
        /// Named after the descriptor's path, in the file's domain.
        policy: Policy,
        /// The unit as it was written.
        unit: EnvoyUnit,
        /// The number as it was written.
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
    /// Seven days from a Thursday, the epoch being one.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl EnvoyUnit {
    /// How long it is.
    pub const fn span(self) -> Micros {
        match self {
            Self::Second => Micros::SECOND,
            Self::Minute => Micros::MINUTE,
            Self::Hour => Micros::HOUR,
            Self::Day => Micros::DAY,
            Self::Week => Micros::WEEK,
            Self::Month => Micros(30 * Micros::DAY.0),
            Self::Year => Micros(365 * Micros::DAY.0),
        }
    }

    /// The word for it in rule files.
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
            Some(word) => match Wildcard::of(word) {
                Some(wildcard) => Self::Wildcard(wildcard),
                None => Self::Literal(word.to_owned()),
            },
        }
    }
}
