//! Types of the Envoy format (envoyproxy/ratelimit): a domain with nested descriptors.
//!
//! `algorithm`, `on_store_failure`, `speed` and `allotments` are additions of ratekeeper. As upstream, any scalar is accepted as text, so that
//! `value: 42` is the text "42", and an empty field is a missing one.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{AlgorithmWord, AllotmentsSpec, FailureWord, SpeedWord, value::Requests};

/// Fields whose scalars are always text.
pub(crate) const TEXT_FIELDS: [&str; 5] = ["domain", "key", "value", "name", "unit"];

/// A domain and its descriptors.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "EnvoyConfig")]
pub(crate) struct EnvoySpec {
    /// The domain in the configuration of Envoy's rate limit filter.
    #[schemars(required, schema_with = "some_scalar")]
    pub(crate) domain: Option<String>,
    /// The first level of the descriptor tree.
    #[schemars(required)]
    pub(crate) descriptors: Option<Vec<DescriptorSpec>>,
}

/// One level of a descriptor: a key, an optional value, a limit, and nested descriptors.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Descriptor")]
pub(crate) struct DescriptorSpec {
    /// The entry's key.
    #[schemars(required, schema_with = "some_scalar")]
    pub(crate) key: Option<String>,
    /// The entry's value; each `*` in it matches any text, and a missing value matches any value.
    #[serde(default)]
    #[schemars(schema_with = "scalar")]
    pub(crate) value: Option<String>,
    /// The limit of requests whose last entry matches this descriptor.
    pub(crate) rate_limit: Option<RateLimitSpec>,
    /// Shadow mode: the limit is evaluated and counted, never enforced.
    pub(crate) shadow_mode: Option<bool>,
    /// Counts metrics by the values of the request.
    pub(crate) detailed_metric: Option<bool>,
    /// Adds the value of this entry to the name of the metric.
    pub(crate) value_to_metric: Option<bool>,
    /// All values that match the wildcard share one count.
    pub(crate) share_threshold: Option<bool>,
    /// Quota mode: a request is refused only if all its limits in quota mode are exceeded. The metadata of the response
    /// lists those that are.
    pub(crate) quota_mode: Option<bool>,
    /// Fields of the response's metadata while requests are within this limit.
    pub(crate) metadata: Option<BTreeMap<String, Value>>,
    /// Descriptors of the next entry.
    pub(crate) descriptors: Option<Vec<DescriptorSpec>>,
}

/// A number of requests per unit of time, or `unlimited`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "RateLimit")]
pub(crate) struct RateLimitSpec {
    /// The unit of time, in any case.
    pub(crate) unit: Option<UnitWord>,
    /// Requests per unit; 0 refuses every request.
    pub(crate) requests_per_unit: Option<Requests>,
    /// Exempts requests from limits; they are not counted.
    pub(crate) unlimited: Option<bool>,
    /// The name that `replaces` refers to.
    #[serde(default)]
    #[schemars(schema_with = "scalar")]
    pub(crate) name: Option<String>,
    /// Limits that this one replaces if both apply to a request.
    pub(crate) replaces: Option<Vec<ReplacesSpec>>,
    /// An addition of ratekeeper: the algorithm. Default: `fixed_window`.
    pub(crate) algorithm: Option<AlgorithmWord>,
    /// An addition of ratekeeper: how the limit decides while its store is unreachable. Default: `local`.
    pub(crate) on_store_failure: Option<FailureWord>,
    /// An addition of ratekeeper: how decisions about a limit in a shared store are made. `prepaid` needs a server that
    /// does not count refused requests (`serve --envoy-all-or-none`). Default: `exact`.
    pub(crate) speed: Option<SpeedWord>,
    /// An addition of ratekeeper: the numbers of `speed: prepaid`.
    pub(crate) allotments: Option<AllotmentsSpec>,
}

/// A limit that another one replaces.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Replaces")]
pub(crate) struct ReplacesSpec {
    /// Its name.
    #[schemars(required, schema_with = "some_scalar")]
    pub(crate) name: Option<String>,
}

/// A unit of time, written in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UnitWord {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const UNITS: [(&str, UnitWord); 7] = [
    ("second", UnitWord::Second),
    ("minute", UnitWord::Minute),
    ("hour", UnitWord::Hour),
    ("day", UnitWord::Day),
    ("week", UnitWord::Week),
    ("month", UnitWord::Month),
    ("year", UnitWord::Year),
];

const UNIT_NAMES: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

impl<'de> Deserialize<'de> for UnitWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let unit = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(&word));
        unit.map(|(_, unit)| unit).ok_or_else(|| de::Error::unknown_variant(&word, &UNIT_NAMES))
    }
}

impl JsonSchema for UnitWord {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Unit".into()
    }

    /// JSON Schema has no case-insensitive match, so the pattern lists both cases of each letter.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let either_case = |c: char| format!("[{}{c}]", c.to_ascii_uppercase());
        let words = UNIT_NAMES.map(|name| name.chars().map(either_case).collect::<String>());
        json_schema!({
            "description": "second, minute, hour, day, week, month (30 days) or year (365 days), in any case.",
            "type": "string",
            "pattern": format!("^({})$", words.join("|")),
        })
    }
}

fn some_scalar(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "number", "boolean"], "minLength": 1 })
}

fn scalar(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "number", "boolean", "null"] })
}
