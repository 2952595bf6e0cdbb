//! A server that does not pass the connection's address on. One test in a process of its own: the line is logged once.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Body, routing::get};
use http::Request;
use tollgate::{Limiter, Quota, Rule};
use tollgate_tower::{ClientAddress, RateLimitLayer};
use tower::ServiceExt;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Every request is refused, and the log says once what is missing and how to provide it.
#[tokio::test]
async fn a_forgotten_connect_info_is_logged_once() {
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let limiter = Limiter::builder().rule(Rule::token_bucket("r", Quota::per_second(10))).build().unwrap();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(limiter, ClientAddress::behind(1)));
    let ask = |request: http::request::Builder| app.clone().oneshot(request.body(Body::empty()).unwrap());

    // The proxy has said who it is, so nothing is missing.
    let known = ask(Request::get("/").header("x-forwarded-for", "192.0.2.1")).await.unwrap();
    assert_eq!((known.status().as_u16(), log.text()), (200, String::new()));
    for _ in 0..3 {
        assert_eq!(ask(Request::get("/")).await.unwrap().status(), 400);
    }
    let text = log.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("ERROR") && text.contains("into_make_service_with_connect_info"), "{text}");
}
