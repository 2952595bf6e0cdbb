//! Types of the native format: a domain, defaults, and policies with their rules.

use std::collections::BTreeMap;

use ratekeeper_core::Weekday;
use schemars::JsonSchema;
use serde::Deserialize;

use super::value::{
    Count, DurationWord, MatchWord, MatchWords, Moment, Offset, OnlyTrue, RateWord, ZoneWord, never_null,
    rules_or_effect,
};

/// A domain and its policies.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "RuleFile")]
#[schemars(transform = never_null)]
pub(crate) struct NativeSpec {
    /// The namespace that requests name. Keys of different domains are independent.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) domain: Option<String>,
    /// Which of the policies that match a request count it. All files of a domain have the same. Default: best.
    #[serde(rename = "match")]
    pub(crate) match_mode: Option<MatchModeWord>,
    /// Defaults of all rules in the file.
    pub(crate) defaults: Option<DefaultsSpec>,
    /// The policies. The most specific pattern that matches a request applies; with `match: all`, every one.
    #[schemars(required, length(min = 1))]
    pub(crate) policies: Option<Vec<PolicySpec>>,
}

/// Which of the policies that match a request count it: the most specific, or all of them.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "MatchMode")]
pub(crate) enum MatchModeWord {
    Best,
    All,
}

/// Defaults of all rules in the file.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Defaults")]
#[schemars(transform = never_null)]
pub(crate) struct DefaultsSpec {
    /// How a rule decides while its store is unreachable.
    pub(crate) on_store_failure: Option<FailureWord>,
    /// How decisions about limits in a shared store are made. Policies that cannot be prepaid stay exact. Default: exact.
    pub(crate) speed: Option<SpeedWord>,
    /// The numbers of prepaid policies.
    pub(crate) allotments: Option<AllotmentsSpec>,
}

/// Rules that are decided together, for requests that match a pattern.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Policy")]
#[schemars(transform = never_null, transform = rules_or_effect)]
pub(crate) struct PolicySpec {
    /// The name, unique in the domain.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) name: Option<String>,
    /// Descriptor entries that the request must have. "*" matches any value and makes it part of the key; a literal
    /// matches only itself, a list any of its literals, which share one count. Without a pattern, the policy matches every request.
    #[serde(rename = "match")]
    pub(crate) pattern: Option<BTreeMap<String, MatchWords>>,
    /// Cost of a request that gives none. Default: 1.
    pub(crate) cost: Option<Count>,
    /// How decisions about limits in a shared store are made. Default: that of `defaults`.
    pub(crate) speed: Option<SpeedWord>,
    /// The numbers of `speed: prepaid`. Defaults: those of `defaults`.
    pub(crate) allotments: Option<AllotmentsSpec>,
    /// The rules. A request is charged to all of them or to none. Required unless `deny` or `unlimited` is set.
    #[schemars(length(min = 1, max = 32))]
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// Blocks a key that its rules deny too often.
    pub(crate) block: Option<BlockSpec>,
    /// In place of rules: refuses every request that matches.
    pub(crate) deny: Option<OnlyTrue>,
    /// In place of rules: admits every request that matches, without counting.
    pub(crate) unlimited: Option<OnlyTrue>,
    /// Rules for single keys, in place of those of the policy.
    pub(crate) overrides: Option<Vec<OverrideSpec>>,
}

/// Rules for one key that replace those of its policy.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Override")]
#[schemars(transform = never_null, transform = rules_or_effect)]
pub(crate) struct OverrideSpec {
    /// The key, if the policy counts by a single value.
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) key: Option<String>,
    /// The key by entry names: one value for each "*" of the policy.
    #[serde(rename = "match")]
    pub(crate) values: Option<BTreeMap<String, MatchWord>>,
    /// When the override expires. Default: never.
    pub(crate) until: Option<Moment>,
    /// The complete rules of this key; none of the policy applies to it. Required unless `deny` or `unlimited` is set.
    #[schemars(length(min = 1, max = 32))]
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// In place of rules: refuses every request of this key.
    pub(crate) deny: Option<OnlyTrue>,
    /// In place of rules: admits every request of this key, without counting.
    pub(crate) unlimited: Option<OnlyTrue>,
}

/// An automatic block. Such a policy writes denials to the store.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Block")]
#[schemars(transform = never_null)]
pub(crate) struct BlockSpec {
    /// Denials of a key that lead to a block, up to 1048576.
    #[schemars(required)]
    pub(crate) after: Option<Count>,
    /// The span in which they are counted, from the first one on.
    #[schemars(required)]
    pub(crate) within: Option<DurationWord>,
    /// How long a first block lasts.
    #[serde(rename = "for")]
    #[schemars(required)]
    pub(crate) length: Option<DurationWord>,
    /// How many times as long each further block is, up to 100. After a quiet time as long as the last block, it starts
    /// over. Default: 1.
    pub(crate) grow: Option<Count>,
    /// The longest block, up to 100d. Default: 1d, or `for` if that is longer.
    pub(crate) at_most: Option<DurationWord>,
}

/// One limit.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Rule")]
#[schemars(transform = never_null)]
pub(crate) struct RuleSpec {
    /// The name, unique in the policy.
    #[schemars(required, length(min = 1, max = 128))]
    pub(crate) name: Option<String>,
    /// The algorithm.
    #[schemars(required)]
    pub(crate) algorithm: Option<AlgorithmWord>,
    /// Permits per period; for `concurrency`, permits held at the same time.
    #[schemars(required)]
    pub(crate) limit: Option<Count>,
    /// The period. Required by every algorithm except `concurrency`.
    pub(crate) per: Option<DurationWord>,
    /// `token_bucket`: permits that can be admitted at one instant. Default: the limit.
    pub(crate) burst: Option<Count>,
    /// `token_bucket`: refills continuously, or by the whole limit every period. Default: continuous.
    pub(crate) refill: Option<RefillWord>,
    /// `leaky_bucket`: permits that the bucket holds. Default: the limit.
    pub(crate) capacity: Option<Count>,
    /// `leaky_bucket`: gives each request the delay of an even stream.
    pub(crate) shaped: Option<bool>,
    /// `fixed_window`: when windows begin.
    pub(crate) align: Option<AlignWord>,
    /// `fixed_window` with `align: calendar`: the UTC offset of the calendar.
    pub(crate) utc_offset: Option<Offset>,
    /// `fixed_window` with `align: calendar`: the time zone of the calendar, in place of `utc_offset`.
    pub(crate) zone: Option<ZoneWord>,
    /// `fixed_window` of a calendar week: its first day. Default: monday.
    pub(crate) week_start: Option<WeekdayWord>,
    /// `fixed_window` of a calendar month: the day on which it begins, 1 to 31; the last day of a shorter month. Default:
    /// 1.
    pub(crate) month_day: Option<Count>,
    /// `sliding_counter`: slices of the window. Default: 10.
    pub(crate) buckets: Option<Count>,
    /// `concurrency`: time without a heartbeat after which a lease expires.
    pub(crate) lease: Option<DurationWord>,
    /// How the rule decides while its store is unreachable. Default: that of `defaults`.
    pub(crate) on_store_failure: Option<FailureWord>,
    /// Shadow mode: the rule is evaluated and counted, never enforced.
    pub(crate) shadow: Option<bool>,
    /// Charges refused requests too, as far as permits remain. Not for `concurrency`.
    pub(crate) count_refused: Option<bool>,
    /// Whether the rule is evaluated. Default: true.
    pub(crate) enabled: Option<bool>,
}

/// An algorithm.
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
    /// The name in rule files.
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

/// How a token bucket is refilled.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "Refill")]
pub(crate) enum RefillWord {
    Continuous,
    Stepwise,
}

/// When a fixed window begins.
#[derive(Clone, Copy, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", rename = "Align")]
pub(crate) enum AlignWord {
    Epoch,
    FirstRequest,
    Calendar,
}

/// A day of the week.
#[derive(Clone, Copy, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", rename = "Weekday")]
pub(crate) enum WeekdayWord {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl WeekdayWord {
    pub(crate) fn day(self) -> Weekday {
        match self {
            Self::Monday => Weekday::Monday,
            Self::Tuesday => Weekday::Tuesday,
            Self::Wednesday => Weekday::Wednesday,
            Self::Thursday => Weekday::Thursday,
            Self::Friday => Weekday::Friday,
            Self::Saturday => Weekday::Saturday,
            Self::Sunday => Weekday::Sunday,
        }
    }
}

/// How a rule decides while its store is unreachable.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "OnStoreFailure")]
pub(crate) enum FailureWord {
    Open,
    Closed,
    Local,
}

/// How decisions about limits in a shared store are made: each by the store, or for busy keys in the process, by permits
/// that the store has granted in advance.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", rename = "Speed")]
pub(crate) enum SpeedWord {
    Exact,
    Prepaid,
}

/// The numbers of `speed: prepaid`.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Allotments")]
#[schemars(transform = never_null)]
pub(crate) struct AllotmentsSpec {
    /// Permits per second, in one process, from which a key gets an allotment. Default: 100/s.
    pub(crate) hot: Option<RateWord>,
    /// The longest time between two calls of a hot key, 1ms to 1s. Default: 100ms.
    pub(crate) turn: Option<DurationWord>,
    /// How long an allotment lasts, two turns to 1m. Default: ten turns.
    pub(crate) hold: Option<DurationWord>,
    /// The longest time for which a denial is repeated without a call, at most 50ms. Default: 50ms.
    pub(crate) remember: Option<DurationWord>,
}
