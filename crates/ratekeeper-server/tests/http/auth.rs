//! `/v1/auth`: authorization requests of proxies, and the keys they select.

use crate::{
    client::{Reply, ask, raw},
    fixture::Fixture,
};

#[test]
fn a_proxy_gets_200_or_a_denial() {
    let fixture = Fixture::new();
    for left in [2, 1, 0] {
        let reply = fixture.get("/v1/auth?domain=api&entry=key:header:x-api-key", &[("x-api-key", "k")]);
        assert_eq!((reply.status, reply.body.as_str()), (200, ""));
        let field = reply.header("ratelimit").unwrap();
        assert!(field.starts_with(&format!("\"few\";r={left}")), "{field}");
    }
    let denied = fixture.get("/v1/auth?domain=api&entry=key:header:x-api-key", &[("x-api-key", "k")]);
    denied.is_problem(429, "the same request passes after");
    assert_eq!(denied.json()["violated-policies"][0], "few");
    assert!(denied.header("retry-after").unwrap().parse::<u32>().unwrap() > 1_000);
}

#[test]
fn the_status_of_a_refusal_can_be_chosen() {
    let fixture = Fixture::new();
    for status in [401, 403, 429, 503] {
        let reply = fixture.get(&format!("/v1/auth?cost=4&deny_status={status}"), &[]);
        reply.is_problem(status, "a retry cannot succeed");
        assert_eq!(reply.header("retry-after"), None, "no wait helps");
    }
    fixture.get("/v1/auth?deny_status=200", &[]).is_problem(400, "401, 403, 429 or 503");
    let fixture = Fixture::with(|config| config.auth.deny_status = Some(403));
    fixture.get("/v1/auth?cost=4", &[]).is_problem(403, "a retry cannot succeed");
}

/// The proxy is trusted to append the address of its client. Addresses further left are not trusted.
#[test]
fn without_entries_the_clients_address_is_the_key() {
    let fixture = Fixture::new();
    let left = |forwarded: &str| {
        let reply = fixture.get("/v1/auth", &[("x-forwarded-for", forwarded)]);
        reply.header("ratelimit").map(str::to_owned)
    };
    let first = left("203.0.113.7").unwrap();
    assert!(first.contains("r=2"), "{first}");
    assert!(left("6.6.6.6, 203.0.113.7").unwrap().contains("r=1"), "a made-up hop changes nothing");
    assert!(left("::ffff:203.0.113.7").unwrap().contains("r=0"), "dressed up as IPv6 it is the same");
    assert!(left("2001:db8::1").unwrap().contains("r=2"));
    assert!(left("2001:db8::ffff:1").unwrap().contains("r=1"), "neighbours in a /64 are one");
    assert!(left("2001:db8:0:1::1").unwrap().contains("r=2"));
}

#[test]
fn entries_come_from_the_original_request() {
    let fixture = Fixture::new();
    let rules = r#"
domain: api
policies:
  - { name: all, rules: [{ name: r, algorithm: token_bucket, limit: 1000, per: 1h }] }
  - { name: login, match: { path: /login, method: POST, host: a.example, where: eu, ip: "*" }, rules: [{ name: r, algorithm: token_bucket, limit: 7, per: 1h }] }
"#;
    fixture
        .server
        .as_ref()
        .unwrap()
        .engine
        .load(ratekeeper_rules::read_str("r.yaml", rules, ratekeeper_rules::Format::Yaml).map(|file| vec![file]))
        .unwrap();
    let query = "/v1/auth?entry=path:path&entry=method:method&entry=host:host&entry=where:value:eu&entry=ip:address";
    for headers in [
        [("x-original-uri", "/login?next=%2F"), ("x-original-method", "POST"), ("x-original-host", "a.example")],
        [("x-forwarded-uri", "/login"), ("x-forwarded-method", "POST"), ("x-forwarded-host", "a.example")],
    ] {
        let reply = fixture.get(query, &headers);
        assert!(reply.header("ratelimit-policy").unwrap().contains("q=7"), "{reply:?}");
    }
    let reply = fixture.get(query, &[("x-original-uri", "/other"), ("x-original-method", "POST")]);
    assert!(reply.header("ratelimit-policy").unwrap().contains("q=1000"), "{reply:?}");
}

/// A client may send a header that its proxy does not set.
#[test]
fn contradicting_headers_are_refused() {
    let fixture = Fixture::new();
    let claims = [("x-forwarded-uri", "/login"), ("x-original-uri", "/x1")];
    fixture.get("/v1/auth?entry=key:path", &claims).is_problem(400, "x-original-uri and x-forwarded-uri");
    let reply = fixture.get("/v1/auth?entry=key:path:x-forwarded-uri", &claims);
    assert!(reply.header("ratelimit").unwrap().contains("r=2"), "{reply:?}");
    let reply = fixture.get("/v1/auth?entry=key:path", &[("x-forwarded-uri", "/login"), ("x-original-uri", "/login")]);
    assert!(reply.header("ratelimit").unwrap().contains("r=1"), "the same path, counted on: {reply:?}");
    for source in ["method", "host"] {
        let (ours, theirs) = (format!("x-forwarded-{source}"), format!("x-original-{source}"));
        let claims = [(ours.as_str(), "a"), (theirs.as_str(), "b")];
        fixture.get(&format!("/v1/auth?entry=key:{source}"), &claims).is_problem(400, "have different values");
        assert_eq!(fixture.get(&format!("/v1/auth?entry=key:{source}:{ours}"), &claims).status, 200);
    }
}

/// nginx accepts only 401 and 403 as a denial, and may be configured to let everything else pass.
#[test]
fn a_contradiction_is_refused_with_the_status_of_refusals() {
    let claims = [("x-forwarded-uri", "/login"), ("x-original-uri", "/x1")];
    Fixture::new().get("/v1/auth?entry=key:path&deny_status=403", &claims).is_problem(403, "have different values");
    let fixture = Fixture::with(|config| config.auth.deny_status = Some(401));
    fixture.get("/v1/auth?entry=key:path", &claims).is_problem(401, "have different values");
}

/// Sends a header value of any bytes.
fn with_key(fixture: &Fixture, value: &[u8]) -> Reply {
    let head =
        b"GET /v1/auth?entry=key:header:x-api-key HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-api-key: ";
    raw(fixture.http, &[head, value, b"\r\n\r\n"].concat()).unwrap()
}

/// A client that could cause an error could bypass every limit of a proxy that lets errors pass.
#[test]
fn any_header_value_is_limited() {
    let fixture = Fixture::new();
    let long = |end: &str| format!("{}{end}", "k".repeat(5_000)).into_bytes();
    for value in [long("a"), long("b"), b"\xff\xfe".to_vec(), b"\xff\xfd".to_vec(), vec![0xff; 5_000]] {
        for left in [2, 1, 0] {
            let reply = with_key(&fixture, &value);
            assert_eq!(reply.status, 200, "{reply:?}");
            assert!(reply.header("ratelimit").unwrap().contains(&format!("r={left}")), "{reply:?}");
        }
        with_key(&fixture, &value).is_problem(429, "the same request passes after");
    }
    let path = format!("/{}?q", "p".repeat(9_000));
    for status in [200, 200, 200, 429] {
        assert_eq!(fixture.get("/v1/auth?entry=key:path", &[("x-original-uri", &path)]).status, status);
    }
    assert_eq!(fixture.metric("ratekeeper_bad_requests_total{wire=\"http\"}").unwrap_or(0.0), 0.0);
}

/// A header value and the same value in a descriptor select the same key.
#[test]
fn a_long_value_is_the_same_key_for_every_verb() {
    let fixture = Fixture::new();
    let value = "k".repeat(5_000);
    assert_eq!(with_key(&fixture, value.as_bytes()).status, 200);
    let answer = fixture.check(&format!(r#"{{"domain":"api","descriptor":{{"key":"{value}"}}}}"#));
    assert_eq!(answer["remaining"], 1, "{answer}");
    let key = answer["key"].as_str().unwrap();
    assert!(key.starts_with("kkk") && key.contains("…sha256:") && key.len() < 200, "{key}");
    let answer = fixture.check(&format!(r#"{{"domain":"api","key":"{key}"}}"#));
    assert_eq!(answer["remaining"], 0, "the key of a response can be used in requests: {answer}");
}

/// While the store is unreachable no limit is exceeded, and the time at which the request would pass is unknown.
#[test]
fn a_denial_without_a_store_has_its_reason() {
    let fixture = Fixture::start(|folder, config| {
        let closed = crate::fixture::RULES.replace("per: 1h }] }", "per: 1h, on_store_failure: closed }] }");
        std::fs::write(folder.path().join("rules.yaml"), closed).unwrap();
        config.store = ratekeeper_server::security::Secret::new("redis://127.0.0.1:1");
    });
    for (query, status) in [("", 503), ("?deny_status=403", 403)] {
        let reply = fixture.get(&format!("/v1/auth{query}"), &[]);
        reply.is_problem(status, "the store cannot decide");
        assert!(reply.json()["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"));
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

#[test]
fn an_allowed_request_gets_its_wait_and_its_lease() {
    let fixture = Fixture::start(|folder, config| {
        let rules = crate::fixture::RULES.replace(
            "algorithm: token_bucket, limit: 1, per: 10s, burst: 1",
            "algorithm: leaky_bucket, limit: 1, per: 10s, capacity: 2, shaped: true",
        );
        std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        config.rules = vec![folder.path().join("rules.yaml")];
    });
    let held = fixture.get("/v1/auth?entry=job:value:j", &[]);
    let lease = held.header("ratekeeper-lease").unwrap();
    let released =
        fixture.post("/v1/release", &format!(r#"{{"domain":"api","descriptor":{{"job":"j"}},"lease":{lease}}}"#));
    assert_eq!(released.json()["held"], true);

    let shaped = || fixture.get("/v1/auth?entry=partner:value:p", &[]);
    assert_eq!(shaped().header("ratekeeper-wait-us"), None);
    let wait: u64 = shaped().header("ratekeeper-wait-us").unwrap().parse().unwrap();
    assert!((1..=10_000_000).contains(&wait), "{wait}");
}

/// A missing header leaves its entry out; a client that sends none does not escape a policy for all requests.
#[test]
fn a_missing_header_is_no_entry() {
    let fixture = Fixture::new();
    let reply = fixture.get("/v1/auth?domain=api&entry=user:header:x-user", &[]);
    assert_eq!((reply.status, reply.header("ratelimit")), (200, None), "no policy is for those without a user");
    let reply = fixture.get("/v1/auth?domain=api&entry=user:header:x-user&entry=key:address", &[]);
    assert!(reply.header("ratelimit").unwrap().starts_with("\"few\""));
}

#[test]
fn an_invalid_query_is_refused() {
    let fixture = Fixture::new();
    for (query, words) in [
        ("entry=user", "NAME:SOURCE"),
        ("entry=user:cookie:x", "is no source"),
        ("entry=user:header:%20", "no name of a header"),
        ("cost=many", "whole number"),
        ("colour=red", "use domain, entry, and, cost and deny_status"),
        ("domain=%zz", "hexadecimal"),
        ("domain=%ff", "UTF-8"),
    ] {
        fixture.get(&format!("/v1/auth?{query}"), &[]).is_problem(400, words);
    }
}

#[test]
fn any_method_is_accepted() {
    let fixture = Fixture::new();
    for method in ["GET", "POST", "HEAD", "DELETE"] {
        assert_eq!(ask(fixture.http, method, "/v1/auth?cost=0", &[], b"").status, 200, "{method}");
    }
}
