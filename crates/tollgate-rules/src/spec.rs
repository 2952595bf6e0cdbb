//! What may be written down, as types: serde reads them, and the JSON Schema is made from them.
//!
//! Every field is an `Option`, also the required ones. A missing field is asked for later, in a sentence that knows why
//! it is needed, and one that could not be read leaves its neighbours readable. The schema says `required`.

mod envoy;
mod native;
mod value;

pub(crate) use envoy::{DescriptorSpec, EnvoySpec, RateLimitSpec, TEXT_FIELDS, UnitWord};
pub(crate) use native::{
    AlgorithmWord, AlignWord, FailureWord, NativeSpec, OverrideSpec, PolicySpec, RefillWord, RuleSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
pub(crate) use value::{Count, Span};

/// A rule file of tollgate, in its own form or in that of envoyproxy/ratelimit.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "tollgate rule file")]
#[expect(dead_code, reason = "the schema of both; a reader looks first which of the two a file is")]
pub(crate) enum RuleFileSpec {
    /// Policies, each with a pattern and its rules.
    Native(NativeSpec),
    /// The configuration of envoyproxy/ratelimit: a domain with nested descriptors.
    Envoy(EnvoySpec),
}
