//! Rules that come with a request over HTTP.

use serde_json::json;

use crate::fixture::Fixture;

const RULES: &str = r#"[{"name":"minute","algorithm":"sliding_log","limit":2,"per":"365d"},
    {"name":"day","algorithm":"fixed_window","limit":9,"per":"365d"}]"#;

#[test]
fn rules_come_with_the_request() {
    let fixture = Fixture::new();
    let body = |fields: &str| format!(r#"{{{fields},"rules":{RULES}}}"#);
    let first = fixture.check(&body(r#""key":"u""#));
    assert_eq!((&first["remaining"], &first["policy"], &first["key"]), (&json!(1), &json!("inline"), &json!("u")));
    assert_eq!(first["rules"].as_array().unwrap().len(), 2);
    assert_eq!(fixture.check(&body(r#""key":"u""#))["verdict"], "allow");
    let denied = fixture.check(&body(r#""key":"u""#));
    assert_eq!((&denied["verdict"], &denied["decided_by"]), (&json!("deny"), &json!("minute")));
    assert_eq!(denied["rules"][1]["remaining"], 7, "all or none");
    let peeked = fixture.post("/v1/peek", &body(r#""key":"u""#)).json();
    assert_eq!(peeked["remaining"], 0);
    assert_eq!(fixture.post("/v1/refund", &body(r#""key":"u","cost":2"#)).json()["remaining"], 2);
    // In a domain it is another limit, and a descriptor is a key as a whole.
    let other = fixture.check(&body(r#""domain":"api","descriptor":{"user":"u","path":"/"}"#));
    assert_eq!((&other["remaining"], &other["policy"]), (&json!(1), &json!("inline")));
    assert_eq!(fixture.check(&body(r#""domain":"nowhere","key":"u""#))["source"], "unknown_domain");
    // Several keys, all or none.
    let two = fixture.check(&body(r#""descriptors":[{"user":"a"},{"user":"b"}]"#));
    assert_eq!((&two["verdict"], two["subjects"].as_array().unwrap().len()), (&json!("allow"), 2));
}

#[test]
fn mistakes_have_the_messages_of_rule_files() {
    let fixture = Fixture::new();
    let refuses = |rules: &str, words: &str| {
        fixture.post("/v1/check", &format!(r#"{{"key":"u","rules":{rules}}}"#)).is_problem(400, words);
    };
    refuses("[]", "rules: the policy has no rules");
    refuses(r#"[{"name":"r","algorithm":"token_bucket","limit":0,"per":"1s"}]"#, "rules[0].limit: limit is 0");
    refuses(r#"[{"name":"r","algorithm":"token_bucket","limit":1,"per":"1s","brust":1}]"#, "did you mean `burst`");
    refuses(r#"{"name":"r"}"#, "rules");
    refuses(&format!("[{}]", " ".repeat(8_192)), "rules are 8194 bytes long; 8192 is the most");
    fixture.post("/v1/check", r#"{"key":"u"}"#).is_problem(400, "missing field `domain`");
}

/// Rules without a domain need a token for all of them.
#[test]
fn a_token_for_a_domain_covers_rules_in_it_only() {
    let fixture = Fixture::start(|folder, config| {
        let path = folder.path().join("tokens");
        std::fs::write(&path, "edge canary-for-the-edge-0123456789 api\n").unwrap();
        config.tokens = Some(path);
    });
    let token = [("authorization", "Bearer canary-for-the-edge-0123456789")];
    let ask = |fields: &str| {
        let body = format!(r#"{{{fields}"key":"u","rules":{RULES}}}"#);
        crate::client::ask(fixture.http, "POST", "/v1/check", &token, body.as_bytes()).status
    };
    assert_eq!((ask(r#""domain":"api","#), ask("")), (200, 403));
}
