//! The client's layer, on tokio's paused clock: when all tasks are idle, it advances to the next timer.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use ratekeeper::{Quota, Rule, Span};
use ratekeeper_tower::{
    WaitError,
    client::{RetryAfterPolicy, ThrottleError, ThrottleLayer},
    key,
};
use support::{Text, limiter, millis, seconds, send};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// A peer that records the times of its calls and answers with the given responses, then with 200.
#[derive(Clone)]
struct Peer {
    began: Instant,
    calls: Arc<Mutex<Vec<u128>>>,
    responses: Arc<Mutex<Vec<Response<Text>>>>,
}

impl Peer {
    fn new(mut responses: Vec<Response<Text>>) -> Self {
        responses.reverse();
        Self { began: Instant::now(), calls: Arc::default(), responses: Arc::new(Mutex::new(responses)) }
    }

    /// The times of the calls, in milliseconds.
    fn calls(&self) -> Vec<u128> {
        self.calls.lock().unwrap().clone()
    }
}

impl Service<Request<Text>> for Peer {
    type Response = Response<Text>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Text>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Text>) -> Self::Future {
        self.calls.lock().unwrap().push(self.began.elapsed().as_millis());
        ready(Ok(self.responses.lock().unwrap().pop().unwrap_or_else(|| Response::new(Text::from("thanks")))))
    }
}

fn with_retry_after(status: StatusCode, field: &str) -> Response<Text> {
    Response::builder().status(status).header("retry-after", field).body(Text::default()).unwrap()
}

fn to(host: &str) -> Request<Text> {
    Request::builder().uri(format!("http://{host}/v1/things")).body(Text::default()).unwrap()
}

fn five_a_second() -> Rule {
    Rule::token_bucket("partner", Quota::per_second(5).burst(1))
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_at_the_rate_of_their_key() {
    let peer = Peer::new(Vec::new());
    let client = ThrottleLayer::new(limiter([five_a_second()])).layer(peer.clone());
    tokio::join!(send(&client, to("a.test")), send(&client, to("a.test")), send(&client, to("a.test")));
    // Another peer has a separate queue.
    send(&client, to("b.test")).await;
    assert_eq!(peer.calls(), [0, 200, 400, 400]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_holds_back_requests_with_the_key() {
    for (status, field) in [(StatusCode::TOO_MANY_REQUESTS, "3"), (StatusCode::SERVICE_UNAVAILABLE, "3")] {
        let peer = Peer::new(vec![with_retry_after(status, field)]);
        let client = ThrottleLayer::new(limiter([five_a_second()])).layer(peer.clone());
        assert_eq!(send(&client, to("a.test")).await.status, status);
        send(&client, to("b.test")).await;
        assert_eq!(send(&client, to("A.test")).await.status, StatusCode::OK);
        assert_eq!(peer.calls(), [0, 0, 3_000]);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_may_be_a_date() {
    let mut response = with_retry_after(StatusCode::TOO_MANY_REQUESTS, "Mon, 12 Jan 2026 12:00:30 GMT");
    response.headers_mut().insert("date", "Mon, 12 Jan 2026 12:00:20 GMT".parse().unwrap());
    let peer = Peer::new(vec![response]);
    let client = ThrottleLayer::new(limiter([five_a_second()])).layer(peer.clone());
    send(&client, to("a.test")).await;
    send(&client, to("a.test")).await;
    assert_eq!(peer.calls(), [0, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn other_responses_start_no_backoff() {
    let other = |status| with_retry_after(status, "60");
    let bare = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).body(Text::default()).unwrap();
    let malformed = with_retry_after(StatusCode::TOO_MANY_REQUESTS, "soon");
    let peer = Peer::new(vec![other(StatusCode::OK), other(StatusCode::MOVED_PERMANENTLY), bare, malformed]);
    let client = ThrottleLayer::new(limiter([five_a_second()])).layer(peer.clone());
    for _ in 0..5 {
        send(&client, to("a.test")).await;
    }
    assert_eq!(peer.calls(), [0, 200, 400, 600, 800]);
}

/// Requests that already have a reservation are held back too, and are not sent all at once when the backoff ends.
#[tokio::test(start_paused = true)]
async fn waiting_requests_acquire_again_after_a_backoff() {
    let peer = Peer::new(vec![with_retry_after(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let client = ThrottleLayer::new(limiter([five_a_second()])).layer(peer.clone());
    tokio::join!(
        send(&client, to("a.test")),
        send(&client, to("a.test")),
        send(&client, to("a.test")),
        send(&client, to("a.test"))
    );
    assert_eq!(peer.calls(), [0, 3_000, 3_200, 3_400]);
}

/// Two layers on one limiter represent two processes: only the store is shared.
#[tokio::test(start_paused = true)]
async fn a_backoff_of_another_process_is_obeyed() {
    let peer = Peer::new(vec![with_retry_after(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let limiter = limiter([five_a_second()]);
    let there = ThrottleLayer::new(limiter.clone()).layer(peer.clone());
    let here = ThrottleLayer::new(limiter.clone()).layer(peer.clone());
    let impatient = ThrottleLayer::new(limiter).max_wait(seconds(2)).layer(peer.clone());
    send(&there, to("a.test")).await;
    let error = impatient.oneshot(to("a.test")).await.unwrap_err();
    assert!(matches!(error, ThrottleError::NotAcquired(WaitError::TimeoutExceeded { .. })), "{error:?}");
    assert_eq!(send(&here, to("a.test")).await.status, StatusCode::OK);
    assert_eq!(peer.calls(), [0, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn max_backoff_bounds_retry_after() {
    let peer = Peer::new(vec![with_retry_after(StatusCode::TOO_MANY_REQUESTS, "99999999999999999999")]);
    let client = ThrottleLayer::new(limiter([five_a_second()])).max_backoff(seconds(10)).layer(peer.clone());
    send(&client, to("a.test")).await;
    send(&client, to("a.test")).await;
    assert_eq!(peer.calls(), [0, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_max_wait_fails_at_once() {
    let peer = Peer::new(vec![with_retry_after(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let client = ThrottleLayer::new(limiter([five_a_second()])).max_wait(millis(500)).layer(peer.clone());
    send(&client, to("a.test")).await;
    let began = Instant::now();
    let error = client.clone().oneshot(to("a.test")).await.unwrap_err();
    let ThrottleError::NotAcquired(WaitError::TimeoutExceeded { retry_after }) = error else {
        panic!("unexpected: {error:?}")
    };
    assert_eq!((retry_after, began.elapsed()), (Span::from_secs(3), Duration::ZERO));

    // Three requests fit into half a second, the fourth does not.
    let requests = (0..4).map(|_| client.clone().oneshot(to("b.test")));
    let outcomes: Vec<bool> = join_all(requests).await.into_iter().map(|outcome| outcome.is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false]);
    assert_eq!(peer.calls(), [0, 0, 200, 400]);
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_limit_fails_at_once() {
    let peer = Peer::new(Vec::new());
    let client = ThrottleLayer::new(limiter([five_a_second()])).cost(|_| 2).layer(peer.clone());
    let error = client.oneshot(to("a.test")).await.unwrap_err();
    assert!(matches!(error, ThrottleError::NotAcquired(WaitError::ExceedsLimit { cost: 2, limit: 1 })), "{error:?}");
    assert_eq!(
        error.to_string(),
        "2 permits were asked for and 1 is the most that can pass at once; ask for less at a time"
    );
    assert!(peer.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn retries_wait_for_permits() {
    let peer = Peer::new(vec![
        with_retry_after(StatusCode::TOO_MANY_REQUESTS, "3"),
        with_retry_after(StatusCode::SERVICE_UNAVAILABLE, "2"),
    ]);
    let client = ServiceBuilder::new()
        .retry(RetryAfterPolicy::times(2))
        .layer(ThrottleLayer::new(limiter([five_a_second()])))
        .service(peer.clone());
    assert_eq!(send(&client, to("a.test")).await.body, "thanks");
    assert_eq!(peer.calls(), [0, 3_000, 5_000]);

    let peer = Peer::new((0..5).map(|_| with_retry_after(StatusCode::TOO_MANY_REQUESTS, "1")).collect());
    let client = ServiceBuilder::new()
        .retry(RetryAfterPolicy::times(2))
        .layer(ThrottleLayer::new(limiter([five_a_second()])))
        .service(peer.clone());
    assert_eq!(send(&client, to("a.test")).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(peer.calls(), [0, 1_000, 2_000], "three attempts");
}

#[tokio::test(start_paused = true)]
async fn concurrency_permits_are_held_until_the_body_has_ended() {
    let peer = Peer::new(Vec::new());
    let layer = ThrottleLayer::new(limiter([Rule::concurrency("slots", 1, seconds(60))])).key(key::shared("all"));
    let client = layer.layer(peer.clone());
    let first = client.clone().oneshot(to("a.test")).await.unwrap();
    let (second, ()) = tokio::join!(send(&client, to("b.test")), async {
        tokio::time::sleep(seconds(7)).await;
        drop(first);
    });
    assert_eq!(second.status, StatusCode::OK);
    assert_eq!(peer.calls(), [0, 7_000]);
}

async fn join_all<F>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let tasks: Vec<_> = futures.into_iter().map(tokio::spawn).collect();
    let mut outputs = Vec::new();
    for task in tasks {
        outputs.push(task.await.unwrap());
    }
    outputs
}
