use serde_json::{Value, json};

use super::*;

fn state(uptime: f64, kind: &str, sources: &Value, allotments: &Value) -> State {
    serde_json::from_value(json!({
        "uptime_seconds": uptime,
        "rules": { "generation": 1, "problem": null },
        "policies": [],
        "store": { "kind": kind, "keys": 0, "bytes": 0, "last_failure": null, "allotments": allotments },
        "sources": sources,
        "switches": { "everything_off": false, "everything_shadow": false },
        "top_denied": [],
    }))
    .unwrap()
}

#[test]
fn sources_and_held_permits_are_one_line() {
    let first =
        state(10.0, "redis", &json!({ "store": 40, "allotment": 1_000 }), &json!({ "held": 1_200, "holders": 3 }));
    let line = "decided by allotment 1000, store 40 · 1200 permits of 3 keys held";
    assert_eq!(of(&first, None, None).lines().nth(1), Some(line));
    let sources = json!({ "store": 44, "allotment": 7_000, "cached_denial": 3 });
    let second = state(12.0, "redis", &sources, &json!({ "held": 1, "holders": 1 }));
    let line = "decided by allotment 3000.0/s, cached denial 1.5/s, store 2.0/s · 1 permit of 1 key held";
    assert_eq!(of(&second, Some(&first), None).lines().nth(1), Some(line));
}

/// In memory the store decides everything, so the line would have no news.
#[test]
fn a_store_in_memory_has_no_such_line() {
    let memory = state(10.0, "memory", &json!({ "store": 40 }), &Value::Null);
    assert_eq!(of(&memory, None, None).lines().nth(1), Some(""));
    let overflowed = state(10.0, "memory", &json!({ "store": 40, "overflow": 2 }), &Value::Null);
    assert_eq!(of(&overflowed, None, None).lines().nth(1), Some("decided by overflow 2, store 40"));
}

/// Servers before the field `sources` have neither it nor `allotments`.
#[test]
fn an_older_server_is_shown_without_sources() {
    let mut old = serde_json::to_value(json!({
        "uptime_seconds": 1.0,
        "rules": { "generation": 1, "problem": null },
        "policies": [],
        "store": { "kind": "redis", "keys": 0, "bytes": 0, "last_failure": null },
        "switches": { "everything_off": false, "everything_shadow": false },
    }))
    .unwrap();
    old["top_denied"] = json!([]);
    let old: State = serde_json::from_value(old).unwrap();
    assert_eq!(of(&old, None, None).lines().nth(1), Some(""));
}

#[test]
fn recent_refusals_have_their_reasons_and_untrusted_keys_are_escaped() {
    let mut refused = state(10.0, "memory", &json!({}), &Value::Null);
    refused.recent_refusals = serde_json::from_value(json!([
        { "seconds_ago": 0.25, "domain": "api", "policy": "per-user", "rule": "few", "key": "42", "kind": "refused",
          "reason": "rule few: 0 of 3 left for a cost of 1, passes in 20m" },
        { "seconds_ago": 61.0, "domain": "api", "policy": "per-user", "rule": "few", "key": "a\u{1b}[2J", "kind": "shadow",
          "reason": "rule few: a cost of 9, and 3 is the most at once" },
    ]))
    .unwrap();
    let page = of(&refused, None, None);
    let lines: Vec<&str> = page.lines().rev().take(3).collect();
    assert_eq!(
        lines,
        [
            "61.0 s ago a\\u{1b}[2J api/per-user would refuse: rule few: a cost of 9, and 3 is the most at once",
            " 0.2 s ago 42         api/per-user rule few: 0 of 3 left for a cost of 1, passes in 20m",
            "   refused key        policy       reason",
        ]
    );
}
