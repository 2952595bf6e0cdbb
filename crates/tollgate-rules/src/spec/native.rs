//! tollgate's own form: a domain, defaults, and policies with their rules.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::value::{Count, MatchWord, Moment, Offset, Span, never_null};

/// A domain and the policies that hold in it.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "RuleFile")]
#[schemars(transform = never_null)]
pub(crate) struct NativeSpec {
    /// The name that callers ask under; keys of different domains never meet.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) domain: Option<String>,
    /// What holds for every rule that does not say otherwise.
    pub(crate) defaults: Option<DefaultsSpec>,
    /// Tried by pattern; the most specific one wins.
    #[schemars(required, length(min = 1))]
    pub(crate) policies: Option<Vec<PolicySpec>>,
}

/// What holds for every rule that does not say otherwise.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Defaults")]
#[schemars(transform = never_null)]
pub(crate) struct DefaultsSpec {
    /// What a rule answers when its store cannot.
    pub(crate) on_store_failure: Option<FailureWord>,
}

/// Rules decided together, for the requests that fit a pattern.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Policy")]
#[schemars(transform = never_null)]
pub(crate) struct PolicySpec {
    /// Unique in the file.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) name: Option<String>,
    /// Descriptor entries: "*" takes any value and makes it part of the key, a literal matches itself. Left out, the
    /// policy matches every request.
    #[serde(rename = "match")]
    pub(crate) pattern: Option<BTreeMap<String, MatchWord>>,
    /// Permits a request takes if it does not say; 1 if left out.
    pub(crate) cost: Option<Count>,
    /// All of them pass, or none is charged.
    #[schemars(required, length(min = 1, max = 32))]
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// Single keys that other rules hold for.
    pub(crate) overrides: Option<Vec<OverrideSpec>>,
}

/// Rules of its own for one key, in place of its policy's.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Override")]
#[schemars(transform = never_null)]
pub(crate) struct OverrideSpec {
    /// The key, where the policy counts by a single value.
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) key: Option<String>,
    /// The same by names: one value for each "*" of the policy.
    #[serde(rename = "match")]
    pub(crate) values: Option<BTreeMap<String, MatchWord>>,
    /// When the policy's own rules hold again; never if left out.
    pub(crate) until: Option<Moment>,
    /// What holds instead: all of it, nothing is taken over from the policy.
    #[schemars(required, length(min = 1, max = 32))]
    pub(crate) rules: Option<Vec<RuleSpec>>,
}

/// One limit.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Rule")]
#[schemars(transform = never_null)]
pub(crate) struct RuleSpec {
    /// Unique in the policy.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) name: Option<String>,
    /// Which way of counting.
    #[schemars(required)]
    pub(crate) algorithm: Option<AlgorithmWord>,
    /// Permits per period, or holders at once.
    #[schemars(required)]
    pub(crate) limit: Option<Count>,
    /// The period; for every algorithm but `concurrency`.
    pub(crate) per: Option<Span>,
    /// `token_bucket`: permits that may come at once; the limit if left out.
    pub(crate) burst: Option<Count>,
    /// `token_bucket`: drop by drop, or the whole limit every period.
    pub(crate) refill: Option<RefillWord>,
    /// `leaky_bucket`: how much it holds; the limit if left out.
    pub(crate) capacity: Option<Count>,
    /// `leaky_bucket`: tell each request how long to wait, for an even outflow.
    pub(crate) shaped: Option<bool>,
    /// `fixed_window`: where windows begin.
    pub(crate) align: Option<AlignWord>,
    /// `fixed_window` with `align: calendar`: whose midnight.
    pub(crate) utc_offset: Option<Offset>,
    /// `sliding_counter`: into how many slices the window is split; 10 if left out.
    pub(crate) buckets: Option<Count>,
    /// `concurrency`: how long a holder may be silent before its permit returns.
    pub(crate) lease: Option<Span>,
    /// What to answer when the store cannot.
    pub(crate) on_store_failure: Option<FailureWord>,
    /// Decide and count, but never refuse.
    pub(crate) shadow: Option<bool>,
    /// Charge refused requests too, as far as permits are left; for every algorithm but `concurrency`.
    pub(crate) count_refused: Option<bool>,
    /// Whether the rule takes part; true if left out.
    pub(crate) enabled: Option<bool>,
}

/// A way of counting.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", rename = "Algorithm")]
pub(crate) enum AlgorithmWord {
    TokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow,
    SlidingLog,
    SlidingCounter,
    Concurrency,
}

impl AlgorithmWord {
    /// The word as it is written.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter => "sliding_counter",
            Self::Concurrency => "concurrency",
        }
    }
}

/// How a token bucket gets its tokens back.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "Refill")]
pub(crate) enum RefillWord {
    Continuous,
    Stepwise,
}

/// Where a fixed window begins.
#[derive(Clone, Copy, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", rename = "Align")]
pub(crate) enum AlignWord {
    Epoch,
    FirstRequest,
    Calendar,
}

/// What a rule answers when its store cannot.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "OnStoreFailure")]
pub(crate) enum FailureWord {
    Open,
    Closed,
    Local,
}
