//! The metadata of a response: which descriptors with `quota_mode` are over their limit, and what the rule file has
//! descriptors say while they are within theirs (`metadata`).
//!
//! The shape is that of envoyproxy/ratelimit, so that filters and access logs written for it can read it:
//!
//! ```json
//! {"domain": "ai", "descriptors": [{"entries": ["model=large"]}], "quotaModeEnabled": true, "quotaModeViolations": [0]}
//! ```
//!
//! The fields of a descriptor's own metadata are put next to these. Of two descriptors with a field of the same name the
//! later one wins; the names above are taken.

use std::{collections::BTreeMap, sync::Arc};

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::Map;

use super::{
    decode::Values,
    wire::{DescriptorStatus, RateLimitRequest},
};
use crate::rulebook::of_value;

/// What one descriptor's answer means for the metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    pub(super) quota_mode: bool,
    pub(super) violated: bool,
    /// The descriptor's `metadata`, and whether it is within its limit.
    pub(super) fields: Option<(Arc<Map<String, serde_json::Value>>, bool)>,
}

/// The metadata, if any descriptor calls for it.
pub(super) fn of(
    request: &RateLimitRequest,
    values: &Values<'_>,
    told: &[(DescriptorStatus, Noted)],
) -> Option<Struct> {
    if !told.iter().any(|(_, noted)| noted.quota_mode || noted.fields.is_some()) {
        return None;
    }
    let violations = told.iter().enumerate().filter(|(_, (_, noted))| noted.violated);
    // Numbers here are doubles; a place in a list of at most 64 is exact.
    let violations: Vec<Value> = violations.filter_map(|(place, _)| Some(number(u32::try_from(place).ok()?))).collect();
    let mut fields = vec![
        ("domain", text(request.domain.clone())),
        ("descriptors", list(descriptors(request, values))),
        ("quotaModeEnabled", value(Kind::BoolValue(told.iter().any(|(_, noted)| noted.quota_mode)))),
    ];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(request.hits_addend)));
    }
    if !violations.is_empty() {
        fields.push(("quotaModeViolations", list(violations)));
    }
    let own = told.iter().filter_map(|(_, noted)| noted.fields.as_ref().filter(|(_, within)| *within));
    let mut all: BTreeMap<String, Value> = own.flat_map(|(fields, _)| of_json_fields(fields)).collect();
    all.extend(structure(fields).fields);
    Some(Struct { fields: all })
}

fn of_json_fields(fields: &Map<String, serde_json::Value>) -> impl Iterator<Item = (String, Value)> + '_ {
    fields.iter().map(|(name, value)| (name.clone(), of_json(value)))
}

/// Nested no deeper than a rule file may be.
fn of_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    value(match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(yes) => Kind::BoolValue(*yes),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => Kind::ListValue(ListValue { values: items.iter().map(of_json).collect() }),
        Json::Object(fields) => Kind::StructValue(Struct { fields: of_json_fields(fields).collect() }),
    })
}

/// Values as they are counted: a long one is not sent back whole.
fn descriptors(request: &RateLimitRequest, values: &Values<'_>) -> Vec<Value> {
    let mut values = values.iter();
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter().zip(values.by_ref());
        let entries = entries.map(|(entry, value)| text(format!("{}={}", entry.key, of_value(value)))).collect();
        value(Kind::StructValue(structure(vec![("entries", list(entries))])))
    });
    descriptors.collect()
}

fn structure(fields: Vec<(&str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

fn text(text: String) -> Value {
    value(Kind::StringValue(text))
}

fn number(number: u32) -> Value {
    value(Kind::NumberValue(number.into()))
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}
