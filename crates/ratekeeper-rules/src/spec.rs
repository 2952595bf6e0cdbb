//! Types of a rule file: deserialized by serde, and the source of the JSON Schema.
//!
//! Doc comments of these types and their fields are descriptions in the schema.
//!
//! Every field is an `Option`, including required ones, so that an invalid field leaves the others readable. Validation
//! reports missing fields later, with the reason; the schema marks them `required`.

mod envoy;
mod native;
mod value;

pub(crate) use envoy::{DescriptorSpec, EnvoySpec, RateLimitSpec, TEXT_FIELDS, UnitWord};
pub(crate) use native::{
    AlgorithmWord, AlignWord, AllotmentsSpec, BlockSpec, FailureWord, MatchModeWord, NativeSpec, OverrideSpec,
    PolicySpec, RefillWord, RuleSpec, SpeedWord, WeekdayWord,
};
use schemars::JsonSchema;
use serde::Deserialize;
pub(crate) use value::{Count, DurationWord, OnlyTrue, number_in_match};

/// A rule file of ratekeeper, in the native format or in that of envoyproxy/ratelimit.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "ratekeeper rule file")]
#[expect(dead_code, reason = "only the schema uses it; the reader detects the format first")]
pub(crate) enum RuleFileSpec {
    /// Native format: a domain with policies, each with a pattern and rules.
    Native(NativeSpec),
    /// Envoy format, the configuration of envoyproxy/ratelimit: a domain with nested descriptors.
    Envoy(EnvoySpec),
}
