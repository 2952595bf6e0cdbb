//! JSON Schema of rule files, generated from the types that deserialize them.
//!
//! `docs/rules.schema.json` is a copy that a test keeps current. This command regenerates the file:
//!
//! `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-rules schema`

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::spec::RuleFileSpec;

/// The schema (draft 2020-12) of both formats of rule files.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RuleFileSpec>();
    schema.to_value()
}

#[cfg(test)]
mod tests;
