//! The JSON Schema of rule files, made from the types that read them, so that editors know what readers know.
//!
//! `docs/rules.schema.json` is this schema; a test compares the two, and renews the file when told to:
//! `TOLLGATE_RENEW=1 cargo test -p tollgate-rules schema`.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::spec::RuleFileSpec;

/// The schema (draft 2020-12) of both forms of a rule file.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RuleFileSpec>();
    schema.to_value()
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
