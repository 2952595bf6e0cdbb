//! The server's layer, on a manual clock.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use ratekeeper::{Decision, LeaseId, Policy, Quota, Rule, Span, StoreError, Verb};
use ratekeeper_tower::{
    ClientAddress, HeaderStyle, OnMissingKey, OnStoreError, RateLimitLayer, RateLimiter, Refusal, WaitError,
    key::PeerAddress,
};
use support::{Text, from_user, greet, limiter_with_clock, send, user_key};
use tower::{Layer, service_fn};

#[tokio::test]
async fn requests_over_the_limit_are_refused_with_retry_after() {
    let (limiter, clock) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(2))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));

    for left in ["1", "0"] {
        let served = send(&service, from_user("ann")).await;
        assert_eq!((served.status, served.body.as_str()), (StatusCode::OK, "hello"));
        assert_eq!(served.header("ratelimit"), format!("\"minute\";r={left};t=60"));
        assert_eq!(served.header("ratelimit-policy"), "\"minute\";q=2;w=60");
        assert!(!served.headers.contains_key("retry-after"));
    }
    clock.advance(Span::from_millis(20_500));
    let refused = send(&service, from_user("ann")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert_eq!(refused.header("ratelimit"), "\"minute\";r=0;t=40");
    let problem: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "rule \"minute\" refuses; retry in 40 s",
        "violated-policies": ["minute"],
    });
    assert_eq!(problem, expected);

    clock.advance(Span::from_secs(refused.seconds("retry-after")));
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_are_limited_separately() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
    let layer = RateLimitLayer::new(limiter, user_key());
    let (one, other) = (layer.layer(service_fn(greet)), layer.layer(service_fn(greet)));
    assert_eq!(send(&one, from_user("ann")).await.status, StatusCode::OK);
    assert_eq!(send(&one, from_user("bob")).await.status, StatusCode::OK);
    // Two services of one layer count together.
    assert_eq!(send(&other, from_user("ann")).await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_cost_function_is_used() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(10))]);
    let layer = RateLimitLayer::new(limiter, user_key())
        .cost(|head| head.headers.get("x-cost").map_or(1, |cost| cost.to_str().unwrap().parse().unwrap()));
    let service = layer.layer(service_fn(greet));
    let costing = |cost: &str| {
        let mut request = from_user("ann");
        request.headers_mut().insert("x-cost", cost.parse().unwrap());
        request
    };
    assert_eq!(send(&service, costing("7")).await.header("ratelimit"), "\"minute\";r=3;t=60");
    assert_eq!(send(&service, costing("4")).await.status, StatusCode::TOO_MANY_REQUESTS);
    // A cost of 0 takes nothing.
    assert_eq!(send(&service, costing("0")).await.header("ratelimit"), "\"minute\";r=3;t=60");

    let never = send(&service, costing("11")).await;
    assert_eq!(never.status, StatusCode::BAD_REQUEST);
    assert!(!never.headers.contains_key("retry-after"), "waiting cannot help");
    assert!(never.body.contains("asks for more than 10 at once"), "{}", never.body);
}

#[tokio::test]
async fn requests_without_a_key_follow_on_missing_key() {
    let anonymous = || Request::builder().uri("/").body(Text::default()).unwrap();
    let layer = |on_missing_key| {
        let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
        RateLimitLayer::new(limiter, user_key()).on_missing_key(on_missing_key).layer(service_fn(greet))
    };
    let refused = send(&layer(OnMissingKey::Refuse), anonymous()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("the request has no key"), "{}", refused.body);

    let passing = layer(OnMissingKey::Pass);
    for _ in 0..3 {
        let passed = send(&passing, anonymous()).await;
        assert_eq!(passed.status, StatusCode::OK);
        assert!(!passed.headers.contains_key("ratelimit"));
    }
    let counting = layer(OnMissingKey::CountAs("anonymous".to_owned()));
    assert_eq!(send(&counting, anonymous()).await.status, StatusCode::OK);
    assert_eq!(send(&counting, anonymous()).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(&counting, from_user("ann")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
    let service = RateLimitLayer::new(limiter, user_key()).on_store_error(OnStoreError::Pass).layer(service_fn(greet));
    let refused = send(&service, from_user(&"a".repeat(4_097))).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("the key has 4097 bytes; 4096 is the most"), "{}", refused.body);
    assert_eq!(send(&service, from_user(&"a".repeat(4_096))).await.status, StatusCode::OK);
}

/// A limiter whose store fails in a way that no rule covers.
#[derive(Clone)]
struct Broken;

impl RateLimiter for Broken {
    async fn check(&self, _: &str, _: u64) -> Result<Decision, StoreError> {
        Err(StoreError::Refused { address: "secret.example:6379".to_owned(), reason: "WRONGPASS".to_owned() })
    }
    async fn acquire(&self, _: &str, _: u64, _: Option<std::time::Duration>) -> Result<Decision, WaitError> {
        Err(WaitError::TimeoutExceeded { retry_after: Span::SECOND })
    }
    async fn heartbeat(&self, _: &str, _: LeaseId) -> Result<bool, StoreError> {
        Ok(false)
    }
    fn submit(&self, _: &str, _: u64, _: Verb) {}
    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy::new("api", [Rule::sliding_log("minute", Quota::per_minute(1))]).unwrap())
    }
}

#[tokio::test]
async fn store_errors_follow_on_store_error() {
    let service = RateLimitLayer::new(Broken, user_key()).layer(service_fn(greet));
    let refused = send(&service, from_user("ann")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!refused.body.contains("secret") && !refused.body.contains("WRONGPASS"), "{}", refused.body);

    let service = RateLimitLayer::new(Broken, user_key()).on_store_error(OnStoreError::Pass).layer(service_fn(greet));
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_custom_refusal_has_the_fields() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
    let layer =
        RateLimitLayer::new(limiter, user_key()).headers(HeaderStyle::IetfAndX).refusal_response(|refusal, head| {
            let names = refusal.violated().join("+");
            let body = format!("{} {} is over {names}", refusal.status(), head.uri.path());
            let mut response = Response::new(Bytes::from(body));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            match refusal {
                Refusal::Limited { .. } => response,
                _ => refusal.response(head),
            }
        });
    let service = layer.layer(service_fn(greet));
    let _ = send(&service, from_user("ann")).await;
    let refused = send(&service, from_user("ann")).await;
    assert_eq!(refused.status, StatusCode::IM_A_TEAPOT);
    assert_eq!(refused.body, "429 Too Many Requests /things is over minute");
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(refused.header("x-ratelimit-limit"), "1");
    assert_eq!(refused.header("ratelimit"), "\"minute\";r=0;t=60");
}

#[tokio::test]
async fn grpc_requests_get_a_grpc_status() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    let call = || {
        let mut request = from_user("ann");
        request.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
        request
    };
    let _ = send(&service, call()).await;
    let refused = send(&service, call()).await;
    assert_eq!(refused.status, StatusCode::OK);
    assert_eq!(refused.header("grpc-status"), "8");
    assert_eq!(refused.header("grpc-message"), "rule \"minute\" refuses; retry in 60 s");
    assert_eq!(refused.header("grpc-retry-pushback-ms"), "60000");
    assert_eq!(refused.header("content-type"), "application/grpc+proto");
    assert_eq!(refused.body, "");
}

#[tokio::test]
async fn a_changed_rule_changes_the_fields() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(2))]);
    let service = RateLimitLayer::new(limiter.clone(), user_key()).layer(service_fn(greet));
    assert_eq!(send(&service, from_user("ann")).await.header("ratelimit-policy"), "\"minute\";q=2;w=60");
    limiter.set_rule(Rule::sliding_log("minute", Quota::per_minute(5))).unwrap();
    let served = send(&service, from_user("ann")).await;
    assert_eq!(served.header("ratelimit-policy"), "\"minute\";q=5;w=60");
    assert_eq!(served.header("ratelimit"), "\"minute\";r=3;t=60");
}

#[tokio::test]
async fn a_shadow_rule_neither_refuses_nor_adds_fields() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1)).shadow(true)]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    for _ in 0..3 {
        let served = send(&service, from_user("ann")).await;
        assert_eq!(served.status, StatusCode::OK);
        assert!(!served.headers.keys().any(|name| name.as_str().contains("ratelimit")), "{:?}", served.headers);
    }
}

#[tokio::test]
async fn addresses_are_counted_by_subnet_behind_a_trusted_proxy() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(1))]);
    let service = RateLimitLayer::new(limiter, ClientAddress::behind(1)).layer(service_fn(greet));
    let from = |forwarded: &str| {
        let mut request = from_user("ann");
        request.extensions_mut().insert(PeerAddress("10.0.0.1:4711".parse().unwrap()));
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        request
    };
    assert_eq!(send(&service, from("2001:db8::1")).await.status, StatusCode::OK);
    assert_eq!(send(&service, from("2001:db8::2")).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(&service, from("6.6.6.6, 2001:db8::3")).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(&service, from("2001:db8:0:1::1")).await.status, StatusCode::OK);
}
