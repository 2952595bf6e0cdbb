//! Metadata of a descriptor: fields of replies to requests within its limit.
//!
//! Any mapping is accepted. Fractions and negative numbers are valid here, unlike in the rest of a rule file.
//!
//! Bound: [`MAX_METADATA_BYTES`] of JSON for a descriptor, because every reply carries it.

use serde_json::{Map, Number, Value};

use crate::{
    problem::{Report, Spot},
    scalar::Meaning,
    spec::DescriptorSpec,
    tree::{Kind, TreeNode},
};

/// The fields of a descriptor's metadata. Empty if there is none, or if it is not a mapping, which has been reported.
pub(super) fn of(spec: &DescriptorSpec, spot: Spot<'_>, report: &mut Report) -> Map<String, Value> {
    if spec.metadata.is_none() {
        return Map::new();
    }
    let Some(Value::Object(fields)) = spot.node.get("metadata").map(value) else { return Map::new() };
    let bytes = serde_json::to_string(&fields).map_or(0, |text| text.len());
    if bytes > MAX_METADATA_BYTES {
        let message = format!("metadata is {bytes} bytes long as JSON; use at most {MAX_METADATA_BYTES}");
        spot.blame("metadata", report, message);
    }
    fields
}

fn value(node: &TreeNode) -> Value {
    match &node.kind {
        Kind::Scalar { word, meaning } => match meaning {
            Meaning::Null => Value::Null,
            Meaning::Bool(value) => Value::Bool(*value),
            Meaning::Whole(number) => Value::from(*number),
            Meaning::Text => Value::String(word.clone()),
            Meaning::Odd(_) => {
                let number = word.parse().ok().and_then(Number::from_f64);
                number.map_or_else(|| Value::String(word.clone()), Value::Number)
            }
        },
        Kind::List(items) => items.iter().map(value).collect(),
        Kind::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), value(&entry.value))).collect(),
    }
}

/// The most bytes of one descriptor's metadata, as JSON.
const MAX_METADATA_BYTES: usize = 4_096;
