//! The form of envoyproxy/ratelimit: a domain with nested descriptors, and `algorithm` and `on_store_failure` as our additions.
//!
//! Its reader takes any scalar where it wants text (`value: 42` is the text "42") and an empty field for none, so this
//! form does, too.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{AlgorithmWord, FailureWord, value::Requests};

/// Fields whose scalars are text, whatever they look like.
pub(crate) const TEXT_FIELDS: [&str; 5] = ["domain", "key", "value", "name", "unit"];

/// A domain and its descriptors.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "EnvoyConfig")]
pub(crate) struct EnvoySpec {
    /// The domain that Envoy's filter asks under.
    #[schemars(required, schema_with = "some_scalar")]
    pub(crate) domain: Option<String>,
    /// The first level of the tree.
    #[schemars(required)]
    pub(crate) descriptors: Option<Vec<DescriptorSpec>>,
}

/// One level of a descriptor: a key, perhaps a value, a limit, and the levels below.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Descriptor")]
pub(crate) struct DescriptorSpec {
    /// The entry's key.
    #[schemars(required, schema_with = "some_scalar")]
    pub(crate) key: Option<String>,
    /// The entry's value; each `*` in it stands for any text, and none at all is any value.
    #[serde(default)]
    #[schemars(schema_with = "scalar")]
    pub(crate) value: Option<String>,
    /// The limit of requests that end here.
    pub(crate) rate_limit: Option<RateLimitSpec>,
    /// Decide and count, but never refuse.
    pub(crate) shadow_mode: Option<bool>,
    /// Count metrics by the request's own values.
    pub(crate) detailed_metric: Option<bool>,
    /// Put this entry's value into the name of the metric.
    pub(crate) value_to_metric: Option<bool>,
    /// All values that fit the wildcard share one count.
    pub(crate) share_threshold: Option<bool>,
    /// Refuse a request only where all its quotas are over, and say in the reply's metadata which are.
    pub(crate) quota_mode: Option<bool>,
    /// Fields of the reply's metadata while requests are within this limit.
    pub(crate) metadata: Option<BTreeMap<String, Value>>,
    /// The next level.
    pub(crate) descriptors: Option<Vec<DescriptorSpec>>,
}

/// So many requests per unit of time, or none counted at all.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "RateLimit")]
pub(crate) struct RateLimitSpec {
    /// The unit of time, in any case.
    pub(crate) unit: Option<UnitWord>,
    /// Requests per unit; 0 refuses everyone.
    pub(crate) requests_per_unit: Option<Requests>,
    /// No limit, but a known descriptor.
    pub(crate) unlimited: Option<bool>,
    /// The name that `replaces` refers to.
    #[serde(default)]
    #[schemars(schema_with = "scalar")]
    pub(crate) name: Option<String>,
    /// Limits that step back when this one applies.
    pub(crate) replaces: Option<Vec<ReplacesSpec>>,
    /// tollgate's addition: which way of counting; `fixed_window` if left out.
    pub(crate) algorithm: Option<AlgorithmWord>,
    /// tollgate's addition: what the limit answers when its store cannot; `local` if left out.
    pub(crate) on_store_failure: Option<FailureWord>,
}

/// A limit that steps back.
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

    /// JSON Schema knows no "in any case", so each letter is spelt out both ways.
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
