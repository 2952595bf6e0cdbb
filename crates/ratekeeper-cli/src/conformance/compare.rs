//! Comparison of decisions with those of a vector.

use serde_json::{Map, Value};

use super::vector::{Vector, VectorRequest};

/// The first request that was decided otherwise. Without `exact`, times are compared only as zero, some or none.
pub(super) fn first_difference(vector: &Vector, found: &[Map<String, Value>], exact: bool) -> Option<String> {
    if found.len() != vector.requests.len() {
        return Some(format!("{} decisions for {} requests", found.len(), vector.requests.len()));
    }
    for (number, (request, found)) in (1..).zip(vector.requests.iter().zip(found)) {
        if let Some(difference) = difference(request, found, exact) {
            let VectorRequest { at_ms, key, op, .. } = request;
            return Some(format!("request {number} ({op} of {key} at {at_ms} ms): {difference}"));
        }
    }
    None
}

fn difference(request: &VectorRequest, found: &Map<String, Value>, exact: bool) -> Option<String> {
    let expected = &request.decision;
    if expected.is_empty() {
        return Some("the vector has no decision; `ratekeeper conformance record` adds it".to_owned());
    }
    expected.iter().find_map(|(field, expected)| {
        let found = found.get(field);
        let same = match field.as_str() {
            _ if exact => found == Some(expected),
            "verdict" | "remaining" | "limit" | "decided_by" => found == Some(expected),
            "retry_after_us" | "wait_us" => found.is_some_and(|found| kind(found) == kind(expected)),
            _ => true,
        };
        let found = found.map_or_else(|| "missing".to_owned(), ToString::to_string);
        (!same).then(|| format!("{field} is {found}, expected {expected}"))
    })
}

/// Whether a time is zero; `None` if it is null.
fn kind(time: &Value) -> Option<bool> {
    time.as_u64().map(|time| time == 0)
}
