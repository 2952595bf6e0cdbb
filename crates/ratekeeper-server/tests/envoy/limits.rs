//! Limits observed by clients of Envoy: statuses, header fields, costs, refunds.

use std::time::Duration;

use ratekeeper_testkit::servers::wait_until;

use crate::edge::{Edge, OK, OVER};

#[test]
fn the_eleventh_of_ten_is_refused_and_the_fields_are_passed_on() {
    let edge = Edge::start();
    for left in (0..10).rev() {
        let reply = edge.get("/", &[("x-user", "ann")]);
        assert_eq!(reply.status, 200, "{reply:?}");
        let value = reply.header("ratelimit").expect("RateLimit is forwarded");
        assert!(value.starts_with(&format!(r#""year";r={left};t="#)), "{value}");
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""year";q=10;w=31536000"#));
        assert_eq!(
            reply.header("x-ratelimit-remaining"),
            Some(left.to_string().as_str()),
            "Envoy uses the server's numbers"
        );
        assert_eq!(reply.header("retry-after"), None);
    }
    let refused = edge.get("/", &[("x-user", "ann")]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    let wait: u64 = refused.header("retry-after").expect("retry-after").parse().unwrap();
    assert_eq!(refused.header("ratelimit"), Some(format!(r#""year";r=0;t={wait}"#).as_str()));
    let reset: u64 = refused.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(reset.abs_diff(wait) <= 1, "Envoy's reset {reset} is retry-after {wait}, except for rounding");

    assert_eq!(edge.status("/", &[("x-user", "bob")]), 200, "other keys are not limited");
    assert_eq!(edge.status("/", &[]), 200, "nothing is known of this one, so nothing limits it");
    assert_eq!(edge.envoy.counter(OVER), 1);
    assert!(edge.envoy.counter(OK) >= 11);
}

#[test]
fn a_refused_request_is_counted_on_every_descriptor() {
    let edge = Edge::start();
    let ann = &[("x-user", "ann")];
    for _ in 0..3 {
        assert_eq!(edge.status("/export", ann), 200);
    }
    for _ in 0..4 {
        let refused = edge.get("/export", ann);
        assert_eq!(refused.status, 429);
        assert_eq!(refused.header("x-ratelimit-limit"), Some(r#"3, 10;w=31536000, 3;w=31536000;name="exports""#));
    }
    // Three exports passed, and the four that were denied are counted as well.
    for left in (0..3).rev() {
        let reply = edge.get("/", ann);
        assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (200, Some(left.to_string().as_str())));
    }
    assert_eq!(edge.status("/", ann), 429);
}

#[test]
fn a_request_is_refused_once_its_only_quota_is_used_up() {
    let edge = Edge::start();
    let asked = &[("x-budget", "team")];
    for _ in 0..2 {
        let reply = edge.get("/", asked);
        assert_eq!((reply.status, reply.header("x-over-budget")), (200, None));
    }
    let over = edge.get("/", asked);
    assert_eq!((over.status, over.header("x-over-budget")), (429, Some("[0]")), "{over:?}");
}

#[test]
fn a_request_has_its_cost_and_a_refund_of_what_was_not_used() {
    let edge = Edge::start();
    let costing = |who, bytes, unused| edge.get("/", &[("x-bytes-of", who), ("x-bytes", bytes), ("x-unused", unused)]);
    assert_eq!(costing("bob", "600", "0").status, 200);
    assert_eq!(costing("bob", "600", "0").status, 429, "600 of the 400 that are left");
    assert_eq!(costing("bob", "1", "0").status, 429, "and those were counted");
    assert_eq!(costing("ann", "600", "0").status, 200);
    let used_little = costing("ann", "400", "350");
    assert_eq!((used_little.status, used_little.header("x-ratelimit-remaining")), (200, Some("0")));
    // Envoy refunds when the response has been sent; the time is not observable.
    wait_until("350 are refunded", Duration::from_secs(20), || {
        costing("ann", "0", "0").header("x-ratelimit-remaining") == Some("350")
    });
    assert_eq!(costing("ann", "350", "0").status, 200);
    assert_eq!(costing("ann", "1", "0").status, 429);
}

/// The request peeks, and its cost is charged when the response is complete: a budget of 1000 admits two requests of
/// 600, then none.
#[test]
fn a_peek_and_a_charge_at_the_end_of_the_stream_are_enforced() {
    let edge = Edge::start();
    let asked = |tokens| edge.get("/", &[("x-tokens-of", "ann"), ("x-tokens", tokens)]);
    let first = asked("600");
    assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("1000")), "a look charges nothing");
    wait_until("the first is paid", Duration::from_secs(20), || {
        asked("0").header("x-ratelimit-remaining") == Some("400")
    });
    assert_eq!(asked("600").status, 200, "400 remain, so it is allowed");
    wait_until("the second is charged, and nothing remains", Duration::from_secs(20), || asked("0").status == 429);
    assert_eq!(asked("0").status, 429);
    assert_eq!(edge.status("/", &[("x-tokens-of", "bob"), ("x-tokens", "1")]), 200, "each key has a separate budget");
}

/// No rule matches partners; Envoy sends an inline limit for each.
#[test]
fn an_inline_limit_of_envoy_applies() {
    let edge = Edge::start();
    let asked = |partner| edge.get("/", &[("x-partner", partner)]);
    for left in (0..4).rev() {
        let reply = asked("acme");
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-limit"), Some(r#"4, 4;w=31536000;name="requested""#));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(left.to_string().as_str()));
    }
    let refused = asked("acme");
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(asked("globex").status, 200, "each partner has a separate count");
}

#[test]
fn without_the_metadata_the_rules_decide() {
    let edge = Edge::with("memory", |config| {
        let without = config.replace("value: { partner:", "value: { other:");
        assert_ne!(without, config);
        without.replace("descriptor_key: partner", "descriptor_key: user")
    });
    let reply = edge.get("/", &[("x-partner", "ann")]);
    assert_eq!((reply.status, reply.header("ratelimit-policy")), (200, Some(r#""year";q=10;w=31536000"#)), "{reply:?}");
}
