//! The client's layer, with tokio's time paused: when nobody has anything to do, it jumps to the next timer.

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
use support::{Text, limiter, millis, seconds, send};
use tokio::time::Instant;
use tollgate::{Micros, Quota, Rule};
use tollgate_tower::{
    TurnError,
    client::{PoliteError, PoliteLayer, RetryWhenTold},
    key,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// A peer that notes when it was called, and answers by a script; at its end it is content.
#[derive(Clone)]
struct Peer {
    began: Instant,
    calls: Arc<Mutex<Vec<u128>>>,
    script: Arc<Mutex<Vec<Response<Text>>>>,
}

impl Peer {
    fn new(mut script: Vec<Response<Text>>) -> Self {
        script.reverse();
        Self { began: Instant::now(), calls: Arc::default(), script: Arc::new(Mutex::new(script)) }
    }

    /// Milliseconds at which it was called.
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
        ready(Ok(self.script.lock().unwrap().pop().unwrap_or_else(|| Response::new(Text::from("thanks")))))
    }
}

fn asking_for_quiet(status: StatusCode, field: &str) -> Response<Text> {
    Response::builder().status(status).header("retry-after", field).body(Text::default()).unwrap()
}

fn to(host: &str) -> Request<Text> {
    Request::builder().uri(format!("http://{host}/v1/things")).body(Text::default()).unwrap()
}

fn five_a_second() -> Rule {
    Rule::token_bucket("partner", Quota::per_second(5).burst(1))
}

#[tokio::test(start_paused = true)]
async fn requests_go_out_at_the_rate_and_in_order() {
    let peer = Peer::new(Vec::new());
    let client = PoliteLayer::new(limiter([five_a_second()])).layer(peer.clone());
    tokio::join!(send(&client, to("a.test")), send(&client, to("a.test")), send(&client, to("a.test")));
    // Another peer has a line of its own.
    send(&client, to("b.test")).await;
    assert_eq!(peer.calls(), [0, 200, 400, 400]);
}

#[tokio::test(start_paused = true)]
async fn nobody_sends_before_the_peer_wants_to_hear_from_us() {
    for (status, field) in [(StatusCode::TOO_MANY_REQUESTS, "3"), (StatusCode::SERVICE_UNAVAILABLE, "3")] {
        let peer = Peer::new(vec![asking_for_quiet(status, field)]);
        let client = PoliteLayer::new(limiter([five_a_second()])).layer(peer.clone());
        assert_eq!(send(&client, to("a.test")).await.status, status);
        send(&client, to("b.test")).await;
        assert_eq!(send(&client, to("A.test")).await.status, StatusCode::OK);
        assert_eq!(peer.calls(), [0, 0, 3_000]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_date_holds_back_as_seconds_do() {
    let mut response = asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "Mon, 12 Jan 2026 12:00:30 GMT");
    response.headers_mut().insert("date", "Mon, 12 Jan 2026 12:00:20 GMT".parse().unwrap());
    let peer = Peer::new(vec![response]);
    let client = PoliteLayer::new(limiter([five_a_second()])).layer(peer.clone());
    send(&client, to("a.test")).await;
    send(&client, to("a.test")).await;
    assert_eq!(peer.calls(), [0, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn other_answers_hold_nobody_back() {
    let quiet = |status| asking_for_quiet(status, "60");
    let bare = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).body(Text::default()).unwrap();
    let junk = asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "soon");
    let peer = Peer::new(vec![quiet(StatusCode::OK), quiet(StatusCode::MOVED_PERMANENTLY), bare, junk]);
    let client = PoliteLayer::new(limiter([five_a_second()])).layer(peer.clone());
    for _ in 0..5 {
        send(&client, to("a.test")).await;
    }
    assert_eq!(peer.calls(), [0, 200, 400, 600, 800]);
}

/// Those who already had a turn for later are held back too, and do not all rush out when the quiet ends.
#[tokio::test(start_paused = true)]
async fn those_in_line_line_up_again_after_the_quiet() {
    let peer = Peer::new(vec![asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let client = PoliteLayer::new(limiter([five_a_second()])).layer(peer.clone());
    tokio::join!(
        send(&client, to("a.test")),
        send(&client, to("a.test")),
        send(&client, to("a.test")),
        send(&client, to("a.test"))
    );
    assert_eq!(peer.calls(), [0, 3_000, 3_200, 3_400]);
}

/// Two layers on one limiter stand for two processes: they share the store and nothing else.
#[tokio::test(start_paused = true)]
async fn quiet_asked_of_another_process_is_waited_out_here() {
    let peer = Peer::new(vec![asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let limiter = limiter([five_a_second()]);
    let there = PoliteLayer::new(limiter.clone()).layer(peer.clone());
    let here = PoliteLayer::new(limiter.clone()).layer(peer.clone());
    let hasty = PoliteLayer::new(limiter).within(seconds(2)).layer(peer.clone());
    send(&there, to("a.test")).await;
    let error = hasty.oneshot(to("a.test")).await.unwrap_err();
    assert!(matches!(error, PoliteError::NoTurn(TurnError::TooLong { .. })), "{error:?}");
    assert_eq!(send(&here, to("a.test")).await.status, StatusCode::OK);
    assert_eq!(peer.calls(), [0, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_cannot_silence_us_for_longer_than_we_let_it() {
    let peer = Peer::new(vec![asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "99999999999999999999")]);
    let client = PoliteLayer::new(limiter([five_a_second()])).longest_hold(seconds(10)).layer(peer.clone());
    send(&client, to("a.test")).await;
    send(&client, to("a.test")).await;
    assert_eq!(peer.calls(), [0, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_be_too_long_is_told_at_once_and_nothing_is_sent() {
    let peer = Peer::new(vec![asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "3")]);
    let client = PoliteLayer::new(limiter([five_a_second()])).within(millis(500)).layer(peer.clone());
    send(&client, to("a.test")).await;
    let began = Instant::now();
    let error = client.clone().oneshot(to("a.test")).await.unwrap_err();
    let PoliteError::NoTurn(TurnError::TooLong { retry_after }) = error else { panic!("unexpected: {error:?}") };
    assert_eq!((retry_after, began.elapsed()), (Micros::from_secs(3), Duration::ZERO));

    // Three fit into half a second and a fourth does not.
    let requests = (0..4).map(|_| client.clone().oneshot(to("b.test")));
    let outcomes: Vec<bool> = join_all(requests).await.into_iter().map(|outcome| outcome.is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false]);
    assert_eq!(peer.calls(), [0, 0, 200, 400]);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_pass_is_not_waited_for() {
    let peer = Peer::new(Vec::new());
    let client = PoliteLayer::new(limiter([five_a_second()])).cost(|_| 2).layer(peer.clone());
    let error = client.oneshot(to("a.test")).await.unwrap_err();
    assert!(matches!(error, PoliteError::NoTurn(TurnError::Never { cost: 2, limit: 1 })), "{error:?}");
    assert_eq!(
        error.to_string(),
        "2 permits were asked for and 1 is the most that can pass at once; ask for less at a time"
    );
    assert!(peer.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_waits_like_everybody_else() {
    let peer = Peer::new(vec![
        asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "3"),
        asking_for_quiet(StatusCode::SERVICE_UNAVAILABLE, "2"),
    ]);
    let client = ServiceBuilder::new()
        .retry(RetryWhenTold::times(2))
        .layer(PoliteLayer::new(limiter([five_a_second()])))
        .service(peer.clone());
    assert_eq!(send(&client, to("a.test")).await.body, "thanks");
    assert_eq!(peer.calls(), [0, 3_000, 5_000]);

    let peer = Peer::new((0..5).map(|_| asking_for_quiet(StatusCode::TOO_MANY_REQUESTS, "1")).collect());
    let client = ServiceBuilder::new()
        .retry(RetryWhenTold::times(2))
        .layer(PoliteLayer::new(limiter([five_a_second()])))
        .service(peer.clone());
    assert_eq!(send(&client, to("a.test")).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(peer.calls(), [0, 1_000, 2_000], "so many attempts and no more");
}

#[tokio::test(start_paused = true)]
async fn so_many_at_once_means_until_their_bodies_have_ended() {
    let peer = Peer::new(Vec::new());
    let layer = PoliteLayer::new(limiter([Rule::concurrency("slots", 1, seconds(60))])).key(key::shared("all"));
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
