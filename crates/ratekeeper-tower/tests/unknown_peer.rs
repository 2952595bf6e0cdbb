//! A server that does not provide the connection's address. One test in a separate process, because the line is logged once.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use axum::{Router, body::Body, routing::get};
use http::Request;
use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_testkit::LogLines;
use ratekeeper_tower::{ClientAddress, RateLimitLayer};
use tower::ServiceExt;

/// Every request is refused, and the log states once what is missing and how to provide it.
#[tokio::test]
async fn a_forgotten_connect_info_is_logged_once() {
    let log = LogLines::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let limiter = Limiter::builder().rule(Rule::token_bucket("r", Quota::per_second(10))).build().unwrap();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(limiter, ClientAddress::behind(1)));
    let ask = |request: http::request::Builder| app.clone().oneshot(request.body(Body::empty()).unwrap());

    // The proxy reports an address, so nothing is missing.
    let known = ask(Request::get("/").header("x-forwarded-for", "192.0.2.1")).await.unwrap();
    assert_eq!((known.status().as_u16(), log.all().len()), (200, 0));
    for _ in 0..3 {
        assert_eq!(ask(Request::get("/")).await.unwrap().status(), 400);
    }
    let lines = log.all();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("ERROR") && lines[0].contains("into_make_service_with_connect_info"), "{lines:?}");
}
