//! Tower's contract: readiness, cancellation, and permits that are held until the body has ended.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::{
    convert::Infallible,
    future::{Ready, pending, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use ratekeeper::{Quota, Rule};
use ratekeeper_tower::RateLimitLayer;
use support::{Text, from_user, greet, limiter, limiter_with_clock, millis, seconds, send, user_key};
use tower::{Layer, Service, ServiceExt, service_fn};

/// A service that checks tower's contract: it must be polled ready before it is called.
#[derive(Default)]
struct Strict {
    ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false }
    }
}

impl Service<Request<Text>> for Strict {
    type Response = Response<Text>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Text>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Text>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        ready(Ok(Response::new(Text::from("strictly hello"))))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_called() {
    let (limiter, _) = limiter_with_clock([Rule::sliding_log("minute", Quota::per_minute(2))]);
    let mut service = RateLimitLayer::new(limiter, user_key()).layer(Strict::default());
    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        let response = service.ready().await.unwrap().call(from_user("ann")).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_ended() {
    let (limiter, _) = limiter_with_clock([Rule::concurrency("slot", 1, seconds(60))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    let mut first = service.clone().oneshot(from_user("ann")).await.unwrap();
    assert_eq!(first.headers()["ratelimit-policy"], "\"slot\";q=1;qu=\"concurrent-requests\"");

    let refused = send(&service, from_user("ann")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), "60");

    assert!(first.body_mut().frame().await.unwrap().unwrap().is_data());
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(first.body_mut().frame().await.is_none());
    // The response still exists, but its body has ended.
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::OK);
    drop(first);
}

#[tokio::test]
async fn a_dropped_response_releases_its_permit() {
    let (limiter, _) = limiter_with_clock([Rule::concurrency("slot", 1, seconds(60))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    drop(service.clone().oneshot(from_user("ann")).await.unwrap());
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_dropped_call_releases_its_permit() {
    let (limiter, _) = limiter_with_clock([Rule::concurrency("slot", 1, seconds(60))]);
    let layer = RateLimitLayer::new(limiter, user_key());
    let stuck = layer.layer(service_fn(|_: Request<Text>| pending::<Result<Response<Text>, Infallible>>()));
    let quick = layer.layer(service_fn(greet));

    let mut call = Box::pin(stuck.oneshot(from_user("ann")));
    assert!(poll_once(&mut call).await.is_pending());
    assert_eq!(send(&quick, from_user("ann")).await.status, StatusCode::TOO_MANY_REQUESTS);
    drop(call);
    assert_eq!(send(&quick, from_user("ann")).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_long_response_keeps_its_permit_beyond_the_lease() {
    let limiter = limiter([Rule::concurrency("slot", 1, seconds(3))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    let long = service.clone().oneshot(from_user("ann")).await.unwrap();
    for _ in 0..10 {
        tokio::time::sleep(seconds(2)).await;
        assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    drop(long);
    assert_eq!(send(&service, from_user("ann")).await.status, StatusCode::OK);
}

/// Until a response has ended the layer knows only the lease. Then `Retry-After` is the mean hold time by the number of
/// permits, and never above the lease.
#[tokio::test(start_paused = true)]
async fn retry_after_of_a_concurrency_rule_is_estimated_from_hold_times() {
    let limiter = limiter([Rule::concurrency("slots", 2, seconds(60))]);
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(greet));
    let hold = || service.clone().oneshot(from_user("ann"));
    let held = (hold().await.unwrap(), hold().await.unwrap());
    let refused = send(&service, from_user("ann")).await;
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("60", "\"slots\";r=0;t=60"));

    tokio::time::sleep(seconds(10)).await;
    drop(held);
    let held = (hold().await.unwrap(), hold().await.unwrap());
    let refused = send(&service, from_user("ann")).await;
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("5", "\"slots\";r=0;t=5"));
    let problem: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(problem["detail"], "rule \"slots\" refuses; retry in 5 s");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_shaped_rule_spaces_requests_evenly() {
    let limiter = limiter([Rule::leaky_bucket_shaped("even", Quota::per_second(5))]);
    let began = tokio::time::Instant::now();
    let called = move |_: Request<Text>| async move {
        Ok::<_, Infallible>(Response::new(Text::from(began.elapsed().as_millis().to_string())))
    };
    let service = RateLimitLayer::new(limiter, user_key()).layer(service_fn(called));
    let (a, b, c) = tokio::join!(
        send(&service, from_user("ann")),
        send(&service, from_user("ann")),
        send(&service, from_user("ann"))
    );
    assert_eq!([a.body, b.body, c.body], ["0", "200", "400"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_during_its_wait_refunds_its_permit() {
    let limiter = limiter([Rule::leaky_bucket_shaped("even", Quota::per_second(5))]);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let service = RateLimitLayer::new(limiter.clone(), user_key()).layer(service_fn(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        greet(request)
    }));
    let _ = send(&service, from_user("ann")).await;
    let left = limiter.peek("ann").await.unwrap().remaining();
    let timed_out = tokio::time::timeout(millis(50), send(&service, from_user("ann"))).await;
    assert!(timed_out.is_err());
    assert_eq!(limiter.peek("ann").await.unwrap().remaining(), left, "the permit is back");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the service was not called for it");
}

/// Polls once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}
