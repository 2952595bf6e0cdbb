//! Malformed and hostile input on the admin port: a clear response or a closed connection, without other effects.

use std::{io::Write, time::Duration};

use ratekeeper_server::config::Bounds;

use crate::{
    bad_input::ends,
    client::{Reply, ask, connect},
    fixture::Fixture,
};

fn send(fixture: &Fixture, path: &str, body: &[u8]) -> Reply {
    ask(fixture.admin, "POST", path, &[("content-type", "application/json")], body)
}

/// Health checks and decisions work as before, and no switch or override was set.
#[track_caller]
fn assert_served(fixture: &Fixture) {
    assert_eq!(fixture.admin_get("/healthz").status, 200);
    assert_eq!(fixture.admin_get("/api/switches").json()["everything_off"], false);
    assert_eq!(fixture.admin_get("/api/overrides").json(), serde_json::json!([]));
    assert_eq!(fixture.check(r#"{"domain":"api","key":"w","cost":0}"#)["verdict"], "allow");
}

#[test]
fn malformed_bodies_and_wrong_types_are_refused_with_an_example() {
    let fixture = Fixture::new();
    for path in ["/api/switches", "/api/overrides"] {
        for body in [&b""[..], b"{", b"[]", b"null", b"\xff\xfe", b"{\"set\":1}", b"{\"domain\":\"\xc3(\"}"] {
            let reply = send(&fixture, path, body);
            assert_eq!(reply.status, 400, "{path} {}: {reply:?}", body.escape_ascii());
            assert!(!reply.json()["detail"].as_str().unwrap().is_empty());
        }
        let deep = format!("{{\"domain\":{}", "[".repeat(20_000));
        assert_eq!(send(&fixture, path, deep.as_bytes()).status, 400);
    }
    assert_served(&fixture);
}

#[test]
fn overrides_of_empty_and_huge_keys_are_refused() {
    let fixture = Fixture::new();
    let put = |key: &str, limit: &str| {
        let rules = format!(r#"[{{"name":"n","algorithm":"token_bucket","limit":{limit},"per":"1h"}}]"#);
        let body = format!(r#"{{"domain":"api","policy":"per-key","key":"{key}","rules":{rules}}}"#);
        send(&fixture, "/api/overrides", body.as_bytes())
    };
    put("", "5").is_problem(400, "1 to 4096 bytes long");
    put(&"k".repeat(4_097), "5").is_problem(400, "1 to 4096 bytes long");
    put(&"k".repeat(1 << 20), "5").is_problem(413, "65536 bytes");
    for huge in ["18446744073709551615", "1e300", "-1", "\"many\""] {
        assert_eq!(put("u", huge).status, 400, "{huge}");
    }
    let unknown = br#"{"domain":"nowhere","policy":"p","key":"u","rules":[]}"#;
    send(&fixture, "/api/overrides", unknown).is_problem(400, "no policy");
    assert_served(&fixture);
}

#[test]
fn bytes_that_are_no_http_close_the_connection() {
    let fixture = Fixture::new();
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..], b"*1\r\n$4\r\nPING\r\n", &[0xff; 2_000]] {
        let mut stream = connect(fixture.admin);
        stream.write_all(bytes).unwrap();
        // Some inputs are answered with an immediate reset; the half-close then fails.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        ends(stream);
    }
    let mut stream = connect(fixture.admin);
    stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let line = format!("x-n: {}\r\n", "v".repeat(200));
    let sent = (0..100_000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(sent < 100_000, "20 MB of head were taken");
    assert_served(&fixture);
}

#[test]
fn half_a_request_and_then_silence_is_closed() {
    let short = Duration::from_millis(400);
    let fixture = Fixture::with(|config| {
        config.bounds = Bounds { first_byte: short, request: short, idle: short, ..config.bounds };
    });
    let body = b"POST /api/switches HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 40\r\n\r\n{";
    for half in [&b""[..], b"GET /metr", b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n", body] {
        let mut stream = connect(fixture.admin);
        stream.write_all(half).unwrap();
        ends(stream);
    }
    assert_served(&fixture);
}
