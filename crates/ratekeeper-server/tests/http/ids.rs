//! Requests with ids over HTTP: sent again, committed, cancelled; partial grants.

use serde_json::{Value, json};

use crate::fixture::Fixture;

fn post(fixture: &Fixture, path: &str, more: Value) -> (u16, Value) {
    let mut body = json!({"domain":"api","descriptor":{"user":"42"}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = fixture.post(path, &body.to_string());
    (reply.status, reply.json())
}

#[test]
fn a_request_that_is_sent_again_is_charged_once() {
    let fixture = Fixture::new();
    let (_, first) = post(&fixture, "/v1/check", json!({"cost":3,"request_id":"a"}));
    assert_eq!((&first["remaining"], &first["source"]), (&json!(7), &json!("store")));
    post(&fixture, "/v1/check", json!({"cost":6,"request_id":"b"}));
    let (_, again) = post(&fixture, "/v1/check", json!({"cost":3,"request_id":"a"}));
    assert_eq!(again["source"], "repeated");
    for (field, value) in first.as_object().unwrap().iter().filter(|(field, _)| *field != "source") {
        assert_eq!(again[field], *value, "{field}");
    }
    let header = r#"{"domain":"api","descriptor":{"user":"42"},"cost":3}"#;
    for id in ["a", "\"a\""] {
        let reply = crate::client::ask(
            fixture.http,
            "POST",
            "/v1/check",
            &[("content-type", "application/json"), ("idempotency-key", id)],
            header.as_bytes(),
        );
        assert_eq!(reply.json()["source"], "repeated", "{id}");
    }
    assert_eq!(post(&fixture, "/v1/peek", json!({})).1["remaining"], 1);
}

#[test]
fn a_reservation_is_finished_once() {
    let fixture = Fixture::new();
    let (_, reserved) = post(&fixture, "/v1/reserve", json!({"cost":5,"request_id":"a","lifetime_ms":600_000}));
    assert_eq!((&reserved["op"], &reserved["remaining"]), (&json!("take"), &json!(5)));
    for (path, body) in [
        ("/v1/commit", json!({"request_id":"a","actual":2})),
        ("/v1/commit", json!({"request_id":"a","actual":9})),
        ("/v1/settle", json!({"request_id":"a","actual":2})),
        ("/v1/cancel", json!({"request_id":"a"})),
        ("/v1/refund", json!({"request_id":"a"})),
    ] {
        let (status, settled) = post(&fixture, path, body);
        assert_eq!((status, &settled["remaining"], &settled["granted"]), (200, &json!(8), &json!(2)), "{path}");
    }
    let (_, cancelled) = (post(&fixture, "/v1/reserve", json!({"cost":5,"request_id":"b"})), {
        post(&fixture, "/v1/cancel", json!({"request_id":"b"})).1
    });
    assert_eq!((&cancelled["op"], &cancelled["remaining"]), (&json!("cancel"), &json!(8)));
    let (status, unknown) = post(&fixture, "/v1/commit", json!({"request_id":"c","actual":1}));
    assert_eq!((status, &unknown["title"]), (404, &json!("The id is not known")));
}

#[test]
fn a_part_is_granted_and_reported() {
    let fixture = Fixture::new();
    for (least, verdict, granted) in [(3, "allow", 10), (3, "deny", 0), (0, "allow", 0), (11, "never", 0)] {
        let (_, part) = post(&fixture, "/v1/check", json!({"cost":20,"at_least":least}));
        assert_eq!((&part["verdict"], &part["granted"]), (&json!(verdict), &json!(granted)), "at least {least}");
    }
}

#[test]
fn mistakes_are_named() {
    let fixture = Fixture::new();
    for (path, body, part) in [
        ("/v1/reserve", json!({"cost":1}), "reserve needs a request_id"),
        ("/v1/check", json!({"request_id":""}), "the id has 0 bytes; write 1 to 256"),
        ("/v1/check", json!({"lifetime_ms":5}), "add one"),
        ("/v1/check", json!({"request_id":"a","on_expiry":"refund"}), "check has no on_expiry"),
        ("/v1/reserve", json!({"request_id":"a","on_expiry":"forget"}), "write keep or refund"),
        ("/v1/reserve", json!({"request_id":"a","lifetime_ms":86_400_001}), "use milliseconds, 0 to 86400000"),
        ("/v1/commit", json!({"actual":5}), "commit needs the request_id"),
        ("/v1/commit", json!({"request_id":"a"}), "commit needs actual"),
        ("/v1/refund", json!({"request_id":"a","cost":2}), "leave out cost"),
        ("/v1/settle", json!({"request_id":"a","reserved":2,"actual":1}), "leave out reserved"),
        ("/v1/peek", json!({"request_id":"a"}), "peek has no request_id"),
    ] {
        let (status, problem) = post(&fixture, path, body);
        assert_eq!(status, 400, "{path} {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{path}: {problem}");
    }
}
