//! Malformed input: a clear response or a closed connection, without effect on other clients.

use std::{
    io::{Read, Write},
    time::Duration,
};

use ratekeeper_server::config::Bounds;

use crate::{
    client::{ask, connect, raw},
    fixture::Fixture,
};

/// Other clients are served as before.
#[track_caller]
fn assert_served(fixture: &Fixture) {
    assert_eq!(fixture.check(r#"{"domain":"api","key":"other","cost":0}"#)["verdict"], "allow");
}

fn refuses(body: &str, words: &str) {
    let fixture = Fixture::new();
    fixture.post("/v1/check", body).is_problem(400, words);
    assert_served(&fixture);
}

#[test]
fn a_body_that_is_no_json_is_refused_with_an_example() {
    refuses("domain=api&key=u", r#"{"domain":"api","key":"user:42"}"#);
}

#[test]
fn an_empty_body_is_refused() {
    refuses("", "EOF");
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    refuses(r#"{"domain":"api","key":"u","costs":2}"#, "unknown field `costs`");
}

#[test]
fn a_field_of_another_verb_is_refused() {
    refuses(r#"{"domain":"api","key":"u","reserved":2}"#, "check has no reserved");
}

#[test]
fn wrong_types_are_refused() {
    refuses(r#"{"domain":"api","key":42}"#, "invalid type");
    refuses(r#"{"domain":"api","descriptor":{"user":42}}"#, "invalid type");
    refuses(r#"{"domain":"api","descriptor":["user"]}"#, "an object of strings");
    refuses(r#"{"domain":"api","key":"u","cost":1.5}"#, "invalid type");
    refuses(r#"{"domain":"api","key":"u","cost":-1}"#, "invalid value");
    refuses(r#"null"#, "expected an object");
}

/// Fields are identified by name; an array of their values is ambiguous.
#[test]
fn a_body_that_is_a_list_is_refused() {
    refuses(r#"[]"#, "invalid type: sequence, expected an object");
    refuses(r#"["api","u",null,1,null,null,null,null,null]"#, "invalid type: sequence, expected an object");
}

#[test]
fn key_and_descriptor_together_are_refused_and_so_is_neither() {
    refuses(r#"{"domain":"api","key":"u","descriptor":{"user":"u"}}"#, "keep one");
    refuses(r#"{"domain":"api"}"#, "neither a key nor a descriptor");
}

#[test]
fn an_entry_named_twice_is_refused() {
    refuses(r#"{"domain":"api","descriptor":{"user":"a","user":"b"}}"#, "occurs twice");
}

#[test]
fn a_field_named_twice_is_refused() {
    refuses(r#"{"domain":"api","domain":"edge","key":"u"}"#, "duplicate field");
}

#[test]
fn a_huge_cost_is_refused() {
    refuses(r#"{"domain":"api","key":"u","cost":18446744073709551615}"#, "which is too large");
    refuses(r#"{"domain":"api","key":"u","cost":18446744073709551616}"#, "invalid type");
}

#[test]
fn invalid_times_are_refused() {
    refuses(r#"{"domain":"api","key":"u","max_wait_ms":-1}"#, "max_wait_ms is -1.0; use milliseconds, 0 to 8640000000");
    refuses(
        r#"{"domain":"api","key":"u","max_wait_ms":1e300}"#,
        "max_wait_ms is 1e300; use milliseconds, 0 to 8640000000",
    );
    refuses(r#"{"domain":"api","key":"u","max_wait_ms":8640000000.001}"#, "0 to 8640000000");
    let fixture = Fixture::new();
    let late = r#"{"domain":"api","key":"u","at_ms":1e300}"#;
    fixture.post("/v1/refund", late).is_problem(400, "at_ms is 1e300; use milliseconds, 0 to 4503599627370");
}

#[test]
fn an_empty_key_is_refused() {
    refuses(r#"{"domain":"api","key":""}"#, "the key is empty");
    refuses(r#"{"domain":"api","descriptor":{}}"#, "the descriptor is empty");
    refuses(r#"{"domain":"","key":"u"}"#, "the domain is empty");
}

#[test]
fn a_long_key_is_refused_not_cut() {
    refuses(&format!(r#"{{"domain":"api","key":"{}"}}"#, "k".repeat(4_097)), "4097 bytes long; 4096 is the most");
}

#[test]
fn a_domain_longer_than_any_rule_file_may_name_is_refused() {
    let long = |bytes| format!(r#"{{"domain":"{}","key":"u"}}"#, "d".repeat(bytes));
    refuses(&long(129), "the domain is 129 bytes long; 128 is the most");
    refuses(&long(60_000), "the domain is 60000 bytes long; 128 is the most");
    let fixture = Fixture::new();
    assert_eq!(fixture.check(&long(128))["source"], "unknown_domain");
    let query = format!("/v1/auth?domain={}", "d".repeat(129));
    fixture.get(&query, &[]).is_problem(400, "the domain is 129 bytes long");
}

/// The bound applies during parsing: comparing thousands of entries with each other would take long.
#[test]
fn a_descriptor_of_thousands_of_entries_is_not_read_to_its_end() {
    let entries: Vec<String> = (0..6_000).map(|entry| format!(r#""{entry}":"""#)).collect();
    let body = |entries: &[String]| format!(r#"{{"domain":"api","descriptor":{{{}}}}}"#, entries.join(","));
    refuses(&body(&entries), "a descriptor of more than 16 entries; 16 is the most");
    refuses(&body(&entries[..17]), "more than 16 entries");
    // Parsing stops at the seventeenth entry, before the syntax error.
    refuses(&body(&entries).replace("}}", ":::"), "more than 16 entries");
    assert_eq!(Fixture::new().check(&body(&entries[..16]))["source"], "no_policy");
}

#[test]
fn a_repeated_query_parameter_is_refused() {
    let fixture = Fixture::new();
    for twice in ["domain=api&domain=edge", "cost=0&cost=1", "deny_status=403&deny_status=429"] {
        fixture.get(&format!("/v1/auth?{twice}"), &[]).is_problem(400, "twice");
    }
    assert_eq!(fixture.get("/v1/auth?entry=a:value:1&entry=b:value:2", &[]).status, 200);
}

#[test]
fn a_key_of_a_megabyte_is_refused_before_it_is_read() {
    let fixture = Fixture::new();
    let body = format!(r#"{{"domain":"api","key":"{}"}}"#, "k".repeat(1 << 20));
    fixture.post("/v1/check", &body).is_problem(413, "65536 bytes");
    assert_served(&fixture);
}

#[test]
fn a_chunked_body_without_end_is_cut_off() {
    let fixture = Fixture::new();
    let mut stream = connect(fixture.http);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
    let sent = (0..10_000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 10_000, "40 MB were taken");
    assert_served(&fixture);
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let fixture = Fixture::new();
    let body = b"{\"domain\":\"api\",\"key\":\"\xff\xfe\"}";
    ask(fixture.http, "POST", "/v1/check", &[], body).is_problem(400, "unicode");
    assert_served(&fixture);
}

#[test]
fn deep_nesting_is_refused() {
    refuses(&format!("{{\"domain\":\"api\",\"key\":{}", "[".repeat(20_000)), "invalid type");
}

#[test]
fn an_unknown_path_is_refused_with_a_remedy() {
    let fixture = Fixture::new();
    fixture.get("/v2/check\u{1b}[31m", &[]);
    fixture.get("/v2/check", &[]).is_problem(404, "/v1/openapi.json");
}

#[test]
fn another_method_is_refused_with_the_allowed_one() {
    let fixture = Fixture::new();
    let reply = fixture.get("/v1/check", &[]);
    reply.is_problem(405, "use POST");
    assert_eq!(reply.header("allow"), Some("POST"));
}

#[test]
fn bytes_that_are_no_http_close_the_connection() {
    let fixture = Fixture::new();
    for bytes in [&b"\x00\x01\x02\x03\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n\r\n", b"GET\r\n\r\n"] {
        if let Some(reply) = raw(fixture.http, bytes) {
            assert_eq!(reply.status, 400);
        }
    }
    assert_served(&fixture);
}

#[test]
fn a_head_without_end_is_cut_off() {
    let fixture = Fixture::new();
    let mut stream = connect(fixture.http);
    stream.write_all(b"GET /v1/auth HTTP/1.1\r\n").unwrap();
    let line = format!("x-{}: {}\r\n", "n".repeat(50), "v".repeat(200));
    let sent = (0..100_000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(sent < 100_000, "26 MB of head were taken");
    assert_served(&fixture);
}

/// A client that sends the whole body before it reads also receives the response, without a broken pipe.
#[test]
fn a_body_that_is_too_large_is_answered_while_it_is_still_being_sent() {
    let fixture = Fixture::new();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 2 << 20);
    for _ in 0..20 {
        let mut stream = connect(fixture.http);
        stream.write_all(request.as_bytes()).unwrap();
        for _ in 0..32 {
            stream.write_all(&[b'k'; 64 << 10]).unwrap();
        }
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
    }
    assert_served(&fixture);
}

fn with_short_timeouts() -> Fixture {
    let short = Duration::from_millis(400);
    Fixture::with(|config| {
        config.bounds = Bounds { first_byte: short, request: short, idle: short, ..config.bounds };
    })
}

/// Asserts that the connection ends, by EOF or reset, and returns the bytes received.
#[track_caller]
pub(crate) fn ends(mut stream: std::net::TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(ended.as_ref().is_ok() || ended.as_ref().is_err_and(reset), "still open: {ended:?}");
    rest
}

#[test]
fn a_silent_connection_is_closed() {
    let fixture = with_short_timeouts();
    assert_eq!(ends(connect(fixture.http)), b"");
    assert_served(&fixture);
}

#[test]
fn half_a_head_and_then_silence_is_closed() {
    let fixture = with_short_timeouts();
    let mut stream = connect(fixture.http);
    stream.write_all(b"POST /v1/check HTT").unwrap();
    ends(stream);
    let mut stream = connect(fixture.http);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    ends(stream);
    assert_served(&fixture);
}

#[test]
fn half_a_body_and_then_silence_is_closed() {
    let fixture = with_short_timeouts();
    let mut stream = connect(fixture.http);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n{\"domain\"").unwrap();
    ends(stream);
    assert_served(&fixture);
}

#[test]
fn a_connection_left_idle_is_closed() {
    let fixture = with_short_timeouts();
    let mut stream = connect(fixture.http);
    assert_eq!(crate::client::ask_on(&mut stream, r#"{"domain":"api","key":"u"}"#).unwrap().status, 200);
    ends(stream);
}

#[test]
fn a_flood_of_connections_is_bounded_and_passes() {
    let fixture = Fixture::with(|config| config.bounds.connections = 50);
    let held: Vec<_> = (0..200).map(|_| connect(fixture.http)).collect();
    let refused = || fixture.metric("ratekeeper_refused_connections_total{wire=\"http\"}").unwrap_or(0.0);
    ratekeeper_testkit::servers::wait_until("150 are refused", Duration::from_secs(10), || refused() >= 150.0);
    assert_eq!(fixture.metric("ratekeeper_connections{wire=\"http\"}"), Some(50.0));
    drop(held);
    let open = || fixture.metric("ratekeeper_connections{wire=\"http\"}");
    ratekeeper_testkit::servers::wait_until("their places are free", Duration::from_secs(10), || open() == Some(0.0));
    assert_served(&fixture);
}

#[test]
fn bad_requests_are_counted() {
    let fixture = Fixture::new();
    fixture.post("/v1/check", "");
    fixture.get("/nowhere", &[]);
    assert_eq!(fixture.metric("ratekeeper_bad_requests_total{wire=\"http\"}"), Some(2.0));
}
