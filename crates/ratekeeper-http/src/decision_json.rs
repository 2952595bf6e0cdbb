//! A decision as JSON: the fields that `ratekeeper simulate` writes and `POST /v1/check` returns.
//!
//! ```text
//! {"at_ms":10200,"key":"u","cost":100,"op":"take",                                         push_request
//!  "verdict":"deny","wait_us":0,"retry_after_us":900000,"remaining":65,"limit":100,
//!  "reset_after_us":900000,"decided_by":"log","rules":[…]                                   push_decision
//! ```
//!
//! Names and order of these fields are a contract; callers may append fields after them. Neither function writes the
//! closing brace.

use ratekeeper_core::{DecidedBy, Decision, RuleDecision, Span, Timestamp};

use crate::json::{push, push_field, push_millis, push_string, push_word};

/// Appends the opening brace and the fields of the request, up to the comma before those of the decision.
#[inline]
pub fn push_request(json: &mut Vec<u8>, at: Timestamp, key: &str, cost: u64, op: &str) {
    push(json, b"{\"at_ms\":");
    push_millis(json, at);
    push(json, b",\"key\":");
    push_string(json, key);
    push_field(json, b",\"cost\":", cost);
    push_word(json, b",\"op\":\"", op);
    json.push(b',');
}

/// Appends the fields of the decision. `push_name` appends the name of the rule at an index, as a JSON string.
#[inline]
pub fn push_decision(json: &mut Vec<u8>, decision: &Decision, push_name: impl Fn(&mut Vec<u8>, usize)) {
    push_word(json, b"\"verdict\":\"", decision.verdict.name());
    push_field(json, b",\"wait_us\":", decision.verdict.wait().as_micros());
    push_retry_after(json, decision.verdict.retry_after_span());
    push_field(json, b",\"remaining\":", decision.remaining());
    push_field(json, b",\"limit\":", decision.limit());
    push_field(json, b",\"reset_after_us\":", decision.reset_after_span().as_micros());
    push(json, b",\"decided_by\":");
    match decision.decided_by {
        DecidedBy::Rule(index) => push_name(json, index),
        DecidedBy::Block => push(json, b"\"block\""),
        DecidedBy::Nothing => push(json, b"null"),
    }
    push(json, b",\"rules\":[");
    for (index, rule) in decision.rules.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        push(json, b"{\"name\":");
        push_name(json, index);
        push_rule(json, rule);
    }
    json.push(b']');
}

/// Appends `rules`, with a comma before it: some of a decision's rules.
pub fn push_rules<'a>(json: &mut Vec<u8>, rules: impl Iterator<Item = (&'a str, &'a RuleDecision)>) {
    push(json, b",\"rules\":[");
    for (index, (name, rule)) in rules.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        push(json, b"{\"name\":");
        push_string(json, name);
        push_rule(json, rule);
    }
    json.push(b']');
}

/// Appends the fields of an answer that no policy applied to: allowed, without numbers.
pub fn push_unmatched(json: &mut Vec<u8>) {
    push(
        json,
        b"\"verdict\":\"allow\",\"wait_us\":0,\"retry_after_us\":0,\"remaining\":null,\"limit\":null,\
          \"reset_after_us\":0,\"decided_by\":null,\"rules\":[]",
    );
}

#[inline]
fn push_rule(json: &mut Vec<u8>, rule: &RuleDecision) {
    push_word(json, b",\"verdict\":\"", rule.verdict.name());
    push_field(json, b",\"remaining\":", rule.remaining);
    push_field(json, b",\"limit\":", rule.limit);
    push_retry_after(json, rule.verdict.retry_after_span());
    push_field(json, b",\"reset_after_us\":", rule.reset_after.as_micros());
    if rule.shadow {
        push(json, b",\"shadow\":true");
    }
    if let Some(role) = rule.role.name() {
        push_word(json, b",\"role\":\"", role);
    }
    json.push(b'}');
}

/// Appends `retry_after_us`, with a comma before it: 0 on allow, null if waiting cannot help.
#[inline]
pub fn push_retry_after(json: &mut Vec<u8>, retry_after: Option<Span>) {
    match retry_after {
        Some(wait) => push_field(json, b",\"retry_after_us\":", wait.as_micros()),
        None => push(json, b",\"retry_after_us\":null"),
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Policy, Quota, Rule, Take, Verb};
    use serde_json::{Value, json};

    use super::*;

    fn line(cost: u64) -> Value {
        let watched = Rule::sliding_log("watched", Quota::per_second(1)).shadow(true);
        let policy = Policy::new("api", [Rule::sliding_log("log", Quota::per_second(5)), watched]).unwrap();
        let at = Timestamp::from_millis(10_200);
        let decision = policy.decide(&mut policy.fresh(), cost, &Verb::Take(Take::now()), at).decision;
        let mut json = Vec::new();
        push_request(&mut json, at, "u\"1", cost, "take");
        push_decision(&mut json, &decision, |json, index| push_string(json, policy.rules()[index].name()));
        json.push(b'}');
        serde_json::from_slice(&json).unwrap()
    }

    #[test]
    fn a_line_has_the_fields_of_the_contract() {
        let expected = json!({
            "at_ms": 10200, "key": "u\"1", "cost": 2, "op": "take", "verdict": "allow", "wait_us": 0,
            "retry_after_us": 0, "remaining": 3, "limit": 5, "reset_after_us": 1_000_000, "decided_by": "log",
            "rules": [
                { "name": "log", "verdict": "allow", "remaining": 3, "limit": 5, "retry_after_us": 0,
                  "reset_after_us": 1_000_000 },
                { "name": "watched", "verdict": "never", "remaining": 1, "limit": 1, "retry_after_us": null,
                  "reset_after_us": 0, "shadow": true },
            ],
        });
        assert_eq!(line(2), expected);
    }

    #[test]
    fn retry_after_is_null_if_waiting_cannot_help() {
        let line = line(6);
        assert_eq!((&line["verdict"], &line["retry_after_us"]), (&json!("never"), &Value::Null));
    }

    #[test]
    fn an_unmatched_request_has_the_same_fields() {
        let mut json = b"{".to_vec();
        push_unmatched(&mut json);
        json.push(b'}');
        let unmatched: Value = serde_json::from_slice(&json).unwrap();
        let of_request = ["at_ms", "key", "cost", "op"];
        let mut fields: Vec<String> = line(1).as_object().unwrap().keys().cloned().collect();
        fields.retain(|field| !of_request.contains(&field.as_str()));
        assert_eq!(unmatched.as_object().unwrap().keys().cloned().collect::<Vec<_>>(), fields);
    }
}
