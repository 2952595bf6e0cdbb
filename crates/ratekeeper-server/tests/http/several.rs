//! Several keys in one request: descriptors, policies by name, `match: all`; blocks.

use serde_json::json;

use crate::fixture::Fixture;

const LOGIN: &str = r#"
domain: login
match: all
policies:
  - { name: per-ip, match: { ip: "*" }, rules: [{ name: ip, algorithm: fixed_window, limit: 2, per: 365d }] }
  - { name: per-user, match: { user: "*" }, rules: [{ name: user, algorithm: fixed_window, limit: 5, per: 365d }] }
"#;

fn fixture() -> Fixture {
    Fixture::start(|folder, config| {
        let path = folder.path().join("login.yaml");
        std::fs::write(&path, LOGIN).unwrap();
        config.rules.push(path);
    })
}

/// All or none, with the answer of each key.
#[test]
fn descriptors_are_charged_together() {
    let fixture = fixture();
    let both = r#"{"domain":"api","descriptors":[{"key":"k"},{"user":"42"}],"cost_each":[2,4]}"#;
    let reply = fixture.check(both);
    assert_eq!((&reply["verdict"], &reply["key"], &reply["policy"]), (&json!("allow"), &json!("k"), &json!("per-key")));
    assert_eq!(reply["rules"].as_array().unwrap().len(), 3);
    let shown: Vec<_> =
        (0..2).map(|at| (&reply["subjects"][at]["subject"], &reply["subjects"][at]["policy"])).collect();
    assert_eq!(shown, [(&json!(0), &json!("per-key")), (&json!(1), &json!("two-rules"))]);
    assert_eq!((&reply["subjects"][1]["cost"], &reply["subjects"][1]["key"]), (&json!(4), &json!("42")));
    let denied = fixture.check(both);
    assert_eq!((&denied["verdict"], &denied["policy"]), (&json!("deny"), &json!("per-key")));
    assert_eq!(denied["subjects"][1]["verdict"], "allow");
    let left = fixture.check(r#"{"domain":"api","descriptor":{"user":"42"},"cost":0}"#);
    assert_eq!((&left["remaining"], &left["subjects"]), (&json!(6), &json!(null)), "charged once");
}

#[test]
fn keys_name_their_policies() {
    let fixture = fixture();
    let keys = r#"{"domain":"api","keys":[{"policy":"per-key","key":"k"},{"policy":"two-rules","key":"42","cost":3},{"policy":"shaped","key":"p"}]}"#;
    let reply = fixture.check(keys);
    assert_eq!(reply["verdict"], "allow");
    let costs: Vec<_> = (0..3).map(|at| reply["subjects"][at]["cost"].as_u64().unwrap()).collect();
    assert_eq!(costs, [1, 3, 1]);
    assert_eq!(fixture.check(keys)["decided_by"], "even", "no second within 10 s");
    let unknown = r#"{"domain":"api","keys":[{"policy":"other","key":"42"}]}"#;
    fixture.post("/v1/check", unknown).is_problem(400, "no policy of the domain is named \"other\"; it has per-key");
}

#[test]
fn every_policy_of_a_domain_with_match_all_counts() {
    let fixture = fixture();
    let login = |user| format!(r#"{{"domain":"login","descriptor":{{"ip":"1","user":"{user}"}}}}"#);
    let reply = fixture.post("/v1/check", &login("a"));
    assert_eq!(reply.json()["subjects"].as_array().unwrap().len(), 2);
    assert!(reply.header("ratelimit").unwrap().contains("\"per-ip/ip\";r=1"), "{reply:?}");
    assert_eq!(fixture.check(&login("b"))["remaining"], 0);
    let denied = fixture.check(&login("c"));
    assert_eq!((&denied["verdict"], &denied["decided_by"]), (&json!("deny"), &json!("ip")));
    let refunded = fixture.post("/v1/refund", &login("a")).json();
    assert_eq!(refunded["subjects"][0]["rules"][0]["remaining"], 1, "{refunded}");
    let user = fixture.post("/v1/peek", r#"{"domain":"login","descriptor":{"user":"a"}}"#).json();
    assert_eq!(user["remaining"], 5, "the refund reached both");
}

/// Two entry sets of /v1/auth, in one decision.
#[test]
fn a_proxy_asks_about_several_descriptors() {
    let fixture = fixture();
    let query = "/v1/auth?domain=api&entry=key:header:x-api-key&and&entry=user:header:x-user";
    let ask = |user: &str| fixture.get(query, &[("x-api-key", "k"), ("x-user", user)]);
    let reply = ask("a");
    assert_eq!(reply.status, 200);
    let fields = reply.header("ratelimit").unwrap();
    assert!(fields.contains("\"per-key/few\";r=2") && fields.contains("\"two-rules/hour\";r=8"), "{fields}");
    assert_eq!((ask("b").status, ask("c").status), (200, 200));
    ask("d").is_problem(429, "the same request passes after");
    let left = fixture.check(r#"{"domain":"api","descriptor":{"user":"d"},"cost":0}"#);
    assert_eq!(left["remaining"], 10, "the refused request was charged to neither");
    // A descriptor whose headers are missing is left out.
    let fields = fixture.get(query, &[("x-user", "e")]).header("ratelimit").unwrap().to_owned();
    assert!(fields.contains("\"hour\";r=8") && !fields.contains("few"), "{fields}");
    for (query, words) in [
        ("and&entry=key:address", "goes between the entries"),
        ("entry=key:address&and&and&entry=user:address", "goes between the entries"),
        ("entry=key:address&and", "the query ends with and"),
        ("entry=key:address&and=1&entry=user:address", "and has no value"),
    ] {
        fixture.get(&format!("/v1/auth?domain=api&{query}"), &[]).is_problem(400, words);
    }
}

#[test]
fn a_blocked_key_is_denied_until_the_block_ends() {
    let fixture = fixture();
    let block = |ms: u32| fixture.post("/v1/block", &format!(r#"{{"domain":"api","key":"k","for_ms":{ms}}}"#));
    let reply = block(3_600_000);
    assert_eq!((&reply.json()["op"], &reply.json()["cost"]), (&json!("block"), &json!(0)));
    let denied = fixture.check(r#"{"domain":"api","key":"k"}"#);
    assert_eq!((&denied["verdict"], &denied["decided_by"]), (&json!("deny"), &json!("block")));
    assert!(denied["retry_after_us"].as_u64().unwrap() > 3_500_000_000);
    assert_eq!(fixture.check(r#"{"domain":"api","key":"other"}"#)["verdict"], "allow");
    assert_eq!(block(0).status, 200);
    assert_eq!(fixture.check(r#"{"domain":"api","key":"k"}"#)["verdict"], "allow", "lifted");
    fixture.post("/v1/block", r#"{"domain":"api","key":"k"}"#).is_problem(400, "block needs for_ms");
    let long = r#"{"domain":"api","key":"k","for_ms":8640000001}"#;
    fixture.post("/v1/block", long).is_problem(400, "for_ms is 8640000001");
}

#[test]
fn malformed_lists_are_refused() {
    let fixture = fixture();
    let refuses = |fields: &str, words: &str| {
        fixture.post("/v1/check", &format!(r#"{{"domain":"api",{fields}}}"#)).is_problem(400, words);
    };
    refuses(r#""descriptors":[]"#, "the list of subjects is empty");
    refuses(r#""keys":[]"#, "the list of subjects is empty");
    refuses(r#""descriptors":[{}]"#, "the descriptor is empty");
    refuses(r#""descriptors":{"user":"42"}"#, "expected a list");
    refuses(r#""descriptors":[["user","42"]]"#, "an object of strings");
    refuses(r#""key":"k","keys":[{"policy":"per-key"}]"#, "both a key and a keys; keep one");
    refuses(r#""keys":[{"key":"k"}]"#, "missing field `policy`");
    refuses(r#""keys":["k"]"#, "an object such as");
    refuses(r#""keys":[{"policy":"per-key","key":"k","costs":1}]"#, "unknown field `costs`");
    refuses(r#""descriptors":[{"user":"42"}],"cost_each":[1,2]"#, "cost_each has 2 numbers for 1 subjects");
    refuses(r#""key":"k","cost_each":[1],"cost":1"#, "or cost for all of them");
    refuses(r#""key":"k","cost_each":[1.5]"#, "invalid type");
    let many = format!(r#""keys":[{}]"#, vec![r#"{"policy":"per-key"}"#; 65].join(","));
    refuses(&many, "more than 64 items");
}
