//! Dynamic metadata of a response: violations of `quota_mode`, and the `metadata` of rule files.
//!
//! The `metadata` of a descriptor is included while the descriptor is within its limit. The structure is that of
//! envoyproxy/ratelimit, so that filters and access logs written for it can read it:
//!
//! ```json
//! {"domain": "ai", "descriptors": [{"entries": ["model=large"]}],
//!  "quotaModeEnabled": true, "quotaModeViolations": [0]}
//! ```
//!
//! The fields of `metadata` are added at the same level. If two descriptors have a field of the same name, the later
//! one wins; the fields above take precedence over both.

use std::{collections::BTreeMap, sync::Arc};

use prost_types::{ListValue, Struct, Value, value::Kind};
use ratekeeper_rules::key::of_value;
use serde_json::Map;

use super::{
    decode::Values,
    wire::{DescriptorStatus, RateLimitRequest},
};

/// The part of a descriptor's answer that the metadata reports.
#[derive(Clone, Debug, Default)]
pub(super) struct DescriptorNotes {
    pub(super) quota_mode: bool,
    pub(super) violated: bool,
    /// The descriptor's `metadata`, and whether it is within its limit.
    pub(super) fields: Option<(Arc<Map<String, serde_json::Value>>, bool)>,
}

/// The metadata; `None` if no descriptor has `quota_mode` or `metadata`.
pub(super) fn of(
    request: &RateLimitRequest,
    values: &Values<'_>,
    statuses: &[(DescriptorStatus, DescriptorNotes)],
) -> Option<Struct> {
    if !statuses.iter().any(|(_, notes)| notes.quota_mode || notes.fields.is_some()) {
        return None;
    }
    let violations = statuses.iter().enumerate().filter(|(_, (_, notes))| notes.violated);
    // Protobuf numbers are doubles; a position below 64 is exact.
    let violations: Vec<Value> =
        violations.filter_map(|(position, _)| Some(number(u32::try_from(position).ok()?))).collect();
    let mut fields = vec![
        ("domain", text(request.domain.clone())),
        ("descriptors", list(descriptors(request, values))),
        ("quotaModeEnabled", value(Kind::BoolValue(statuses.iter().any(|(_, notes)| notes.quota_mode)))),
    ];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(request.hits_addend)));
    }
    if !violations.is_empty() {
        fields.push(("quotaModeViolations", list(violations)));
    }
    let own = statuses.iter().filter_map(|(_, notes)| notes.fields.as_ref().filter(|(_, within)| *within));
    let mut all: BTreeMap<String, Value> = own.flat_map(|(fields, _)| of_json_fields(fields)).collect();
    all.extend(structure(fields).fields);
    Some(Struct { fields: all })
}

fn of_json_fields(fields: &Map<String, serde_json::Value>) -> impl Iterator<Item = (String, Value)> + '_ {
    fields.iter().map(|(name, value)| (name.clone(), of_json(value)))
}

/// Recursion is bounded by the nesting depth that rule files allow.
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

/// The descriptors of the request. Values have the form used in keys, so long ones are shortened.
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
