//! Requests of the HTTP wire and their responses: verbs, reservations, leases, descriptors.

use std::time::Instant;

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn a_check_answers_the_line_that_simulate_writes() {
    let fixture = Fixture::new();
    let reply = fixture.post("/v1/check", r#"{"domain":"api","key":"u"}"#);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let fields: Vec<&str> = [
        "at_ms",
        "key",
        "cost",
        "op",
        "verdict",
        "wait_us",
        "retry_after_us",
        "remaining",
        "limit",
        "reset_after_us",
        "decided_by",
        "rules",
        "policy",
        "source",
    ]
    .into();
    let places: Vec<usize> = fields.iter().map(|field| reply.body.find(&format!("\"{field}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "in that order: {}", reply.body);
    let body = reply.json();
    assert_eq!((&body["verdict"], &body["remaining"], &body["limit"]), (&json!("allow"), &json!(2), &json!(3)));
    assert_eq!((&body["key"], &body["decided_by"], &body["op"]), (&json!("u"), &json!("few"), &json!("take")));
    assert_eq!(body["rules"][0]["name"], "few");
}

#[test]
fn a_refusal_is_an_answer_and_not_an_error() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        assert_eq!(fixture.check(r#"{"domain":"api","key":"u"}"#)["verdict"], "allow");
    }
    let denied = fixture.check(r#"{"domain":"api","key":"u"}"#);
    assert_eq!((&denied["verdict"], &denied["remaining"]), (&json!("deny"), &json!(0)));
    assert!(denied["retry_after_us"].as_u64().unwrap() > 1_100_000_000, "a third of an hour");
    assert_eq!(fixture.check(r#"{"domain":"api","key":"v"}"#)["verdict"], "allow", "others are not concerned");
    let never = fixture.check(r#"{"domain":"api","key":"w","cost":4}"#);
    assert_eq!((&never["verdict"], &never["retry_after_us"]), (&json!("never"), &json!(null)));
}

#[test]
fn a_descriptor_falls_under_its_policy_with_all_its_rules() {
    let fixture = Fixture::new();
    let body = fixture.check(r#"{"domain":"api","descriptor":{"user":"42","path":"/"}}"#);
    assert_eq!((&body["policy"], &body["key"], &body["cost"]), (&json!("two-rules"), &json!("42"), &json!(2)));
    assert_eq!(body["rules"].as_array().unwrap().len(), 2);
    assert_eq!((&body["rules"][1]["shadow"], &body["rules"][1]["verdict"]), (&json!(true), &json!("never")));
    assert_eq!((&body["verdict"], &body["remaining"]), (&json!("allow"), &json!(8)));
}

#[test]
fn an_unlimited_request_is_allowed_with_the_reason() {
    let fixture = Fixture::new();
    for (body, source) in [
        (r#"{"domain":"elsewhere","key":"u"}"#, "unknown_domain"),
        (r#"{"domain":"api","descriptor":{"colour":"red"}}"#, "no_policy"),
    ] {
        let body = fixture.check(body);
        assert_eq!(
            (&body["verdict"], &body["limit"], &body["source"]),
            (&json!("allow"), &json!(null), &json!(source))
        );
    }
}

#[test]
fn a_wait_is_reserved_within_the_time_the_caller_has() {
    let fixture = Fixture::new();
    let ask = |wait: u32| {
        fixture.check(&format!(r#"{{"domain":"api","descriptor":{{"partner":"p"}},"max_wait_ms":{wait}}}"#))
    };
    assert_eq!(ask(0)["wait_us"], 0);
    let reserved = ask(60_000);
    assert_eq!(reserved["verdict"], "allow");
    assert!(reserved["wait_us"].as_u64().unwrap() > 5_000_000, "{reserved}");
    assert_eq!(ask(1_000)["verdict"], "deny");
}

#[test]
fn the_other_verbs_reach_the_same_key() {
    let fixture = Fixture::new();
    let ask = |verb: &str, more: &str| {
        let reply = fixture.post(&format!("/v1/{verb}"), &format!(r#"{{"domain":"api","key":"u"{more}}}"#));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    assert_eq!(ask("check", r#","cost":3"#)["remaining"], 0);
    assert_eq!(ask("peek", "")["remaining"], 0);
    assert_eq!(ask("refund", r#","cost":1"#)["remaining"], 1);
    assert_eq!(ask("settle", r#","reserved":3,"actual":2"#)["remaining"], 2);
    assert_eq!(ask("penalize", r#","cost":2"#)["remaining"], 0);
    let reset = ask("reset", "");
    assert_eq!((&reset["remaining"], &reset["op"]), (&json!(3), &json!("reset")));
}

/// A refund names the time that a reservation was charged for.
#[test]
fn a_reservation_is_cancelled_by_the_moment_it_was_for() {
    let fixture = Fixture::new();
    let who = r#""domain":"api","descriptor":{"partner":"p"}"#;
    fixture.check(&format!("{{{who}}}"));
    let reserved = fixture.check(&format!(r#"{{{who},"max_wait_ms":60000}}"#));
    let at = reserved["at_ms"].as_f64().unwrap() + reserved["wait_us"].as_f64().unwrap() / 1_000.0;
    let before = fixture.post("/v1/peek", &format!("{{{who}}}")).json()["reset_after_us"].as_u64().unwrap();
    let reply = fixture.post("/v1/refund", &format!(r#"{{{who},"cost":1,"at_ms":{at}}}"#));
    let after = reply.json()["reset_after_us"].as_u64().unwrap();
    assert!(before - after > 9_000_000, "ten seconds less: {before} {after}");
}

#[test]
fn permits_are_held_by_a_lease_and_released_by_it() {
    let fixture = Fixture::new();
    let who = r#""domain":"api","descriptor":{"job":"j"}"#;
    let first = fixture.check(&format!("{{{who}}}"));
    let second = fixture.check(&format!("{{{who}}}"));
    assert_ne!(first["lease"], second["lease"]);
    assert_eq!(fixture.check(&format!("{{{who}}}"))["verdict"], "deny");
    let beat = fixture.post("/v1/heartbeat", &format!(r#"{{{who},"lease":{}}}"#, second["lease"]));
    assert_eq!((&beat.json()["lease"], &beat.json()["held"]), (&second["lease"], &true.into()));
    let release = || fixture.post("/v1/release", &format!(r#"{{{who},"lease":{}}}"#, first["lease"])).json();
    let released = release();
    assert_eq!((&released["remaining"], &released["held"]), (&1.into(), &true.into()));
    let again = release();
    assert_eq!((&again["remaining"], &again["held"]), (&1.into(), &false.into()), "a permit is returned once");
    let late = fixture.post("/v1/heartbeat", &format!(r#"{{{who},"lease":{}}}"#, first["lease"]));
    assert_eq!(late.json()["held"], false, "an expired lease is reported");
    let oldest = fixture.post("/v1/release", &format!("{{{who}}}"));
    assert_eq!(oldest.json()["remaining"], 2);
}

/// JSON objects have no order, and many programs sort their fields. The Envoy format matches entries in order.
#[test]
fn entries_of_a_descriptor_are_a_set() {
    let fixture = Fixture::start(|folder, config| {
        let rules = "domain: messages\ndescriptors:\n  - key: kind\n    value: marketing\n    descriptors:\n      - key: to\n        rate_limit: { unit: hour, requests_per_unit: 3 }\n  - { key: to, rate_limit: { unit: hour, requests_per_unit: 9 } }\n";
        std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        config.rules = vec![folder.path().join("rules.yaml")];
    });
    for (descriptor, remaining) in
        [(r#"{"kind":"marketing","to":"9"}"#, 2), (r#"{"to":"9","kind":"marketing"}"#, 1), (r#"{"to":"9"}"#, 8)]
    {
        let body = fixture.check(&format!(r#"{{"domain":"messages","descriptor":{descriptor}}}"#));
        assert_eq!(body["remaining"], remaining, "{descriptor}: {body}");
    }
    let body = fixture.check(r#"{"domain":"messages","descriptor":{"to":"9","kind":"other"}}"#);
    assert_eq!(body["source"], "no_policy");
}

/// `curl -d` sends the content type of a form.
#[test]
fn the_content_type_makes_no_difference() {
    let fixture = Fixture::new();
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let reply = crate::client::ask(fixture.http, "POST", "/v1/check", &kind, br#"{"domain":"api","key":"u"}"#);
    assert_eq!(reply.status, 200);
}

#[test]
fn http_2_answers_the_same() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    let fixture = Fixture::new();
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<bytes::Bytes>>();
    let url = format!("http://{}/v1/check", fixture.http);
    let body = fixture.runtime.block_on(async {
        let body = Full::from(r#"{"domain":"api","key":"u"}"#);
        let reply = client.request(http::Request::post(&url).body(body).unwrap()).await.unwrap();
        assert_eq!((reply.status(), reply.version()), (http::StatusCode::OK, http::Version::HTTP_2));
        reply.into_body().collect().await.unwrap().to_bytes()
    });
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["remaining"], 2);
}

/// Before a release the only known time is the lease. Afterwards the header field has the estimate, and the exact field
/// keeps the certain time.
#[test]
fn retry_after_of_a_concurrency_rule_is_estimated_from_hold_times() {
    let fixture = Fixture::new();
    let body = r#"{"domain":"api","descriptor":{"job":"j"}}"#;
    let began = Instant::now();
    let leases = [fixture.check(body), fixture.check(body)].map(|taken| taken["lease"].as_u64().unwrap());
    let denied = fixture.post("/v1/check", body);
    assert_eq!(denied.json().get("estimated_wait_us"), None);
    assert!(denied.header("retry-after").unwrap().parse::<u64>().unwrap() > 3_000);

    let release = |lease| {
        let body = format!(r#"{{"domain":"api","descriptor":{{"job":"j"}},"lease":{lease}}}"#);
        assert_eq!(fixture.post("/v1/release", &body).json()["held"], true);
    };
    leases.into_iter().for_each(release);
    let longest_hold = u64::try_from(began.elapsed().as_micros()).unwrap();
    fixture.check(body);
    fixture.check(body);
    let denied = fixture.post("/v1/check", body);
    let fields = denied.json();
    let (estimate, certain) =
        (fields["estimated_wait_us"].as_u64().unwrap(), fields["retry_after_us"].as_u64().unwrap());
    assert!(estimate <= longest_hold.div_ceil(2), "{estimate} us, and no hold was longer than {longest_hold} us");
    assert!(certain > 3_000_000_000, "the certain time is still that of the lease: {certain}");
    let seconds: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, estimate.div_ceil(1_000_000).max(1));

    let proxied = fixture.get("/v1/auth?entry=job:value:j", &[]);
    assert_eq!((proxied.status, proxied.header("retry-after")), (429, denied.header("retry-after")));
}
