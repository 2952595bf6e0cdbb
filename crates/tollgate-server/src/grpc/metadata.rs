//! The metadata of a response: which descriptors with `quota_mode` are over their limit although the request passes.
//!
//! The shape is that of envoyproxy/ratelimit, so that filters and access logs written for it can read it:
//!
//! ```json
//! {"domain": "ai", "descriptors": [{"entries": ["model=large"]}], "quotaModeEnabled": true, "quotaModeViolations": [0]}
//! ```

use prost_types::{ListValue, Struct, Value, value::Kind};

use super::{
    decode::Values,
    wire::{DescriptorStatus, RateLimitRequest},
};
use crate::rulebook::of_value;

/// What one descriptor's answer means for the metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuotaMode {
    pub(super) enabled: bool,
    pub(super) violated: bool,
}

/// The metadata, if any descriptor calls for it.
pub(super) fn of(
    request: &RateLimitRequest,
    values: &Values<'_>,
    told: &[(DescriptorStatus, QuotaMode)],
) -> Option<Struct> {
    if !told.iter().any(|(_, mode)| mode.enabled) {
        return None;
    }
    let violations = told.iter().enumerate().filter(|(_, (_, mode))| mode.violated);
    // Numbers here are doubles; a place in a list of at most 64 is exact.
    let violations: Vec<Value> = violations.filter_map(|(place, _)| Some(number(u32::try_from(place).ok()?))).collect();
    let mut fields = vec![
        ("domain", text(request.domain.clone())),
        ("descriptors", list(descriptors(request, values))),
        ("quotaModeEnabled", value(Kind::BoolValue(true))),
    ];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(request.hits_addend)));
    }
    if !violations.is_empty() {
        fields.push(("quotaModeViolations", list(violations)));
    }
    Some(structure(fields))
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
