//! Fixtures of the layer tests: a service, limiters on tokio's clock or a manual one, requests.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a fixture that fails stops the test")]

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use ratekeeper::{Clock, Limiter, ManualClock, MemoryStore, Rule, Span, Store, Timestamp};
use tokio::time::Instant;
use tower::{Service, ServiceExt};

/// 12 January 2026, at a full second.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_768_212_847_000_000);

pub(crate) type Text = Full<Bytes>;

/// A clock that reads tokio's time, paused or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioClock {
    began: Instant,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        // Rounded down: if the clock ran ahead of the timers, a sleeper would find fewer permits than it waited for.
        START + Span::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap())
    }
}

/// A limiter on tokio's clock.
pub(crate) fn limiter(rules: impl IntoIterator<Item = Rule>) -> Limiter<MemoryStore<TokioClock>> {
    limiter_on(MemoryStore::with_clock(TokioClock { began: Instant::now() }), rules)
}

/// A limiter on a clock that the test advances.
pub(crate) fn limiter_with_clock(
    rules: impl IntoIterator<Item = Rule>,
) -> (Limiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::at(START);
    (limiter_on(MemoryStore::with_clock(clock.clone()), rules), clock)
}

pub(crate) fn limiter_on<S: Store>(store: S, rules: impl IntoIterator<Item = Rule>) -> Limiter<S> {
    Limiter::builder().rules(rules).store(store).build().unwrap()
}

/// The inner service.
pub(crate) async fn greet(_: Request<Text>) -> Result<Response<Text>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// A request of this user.
pub(crate) fn from_user(user: &str) -> Request<Text> {
    Request::builder().uri("http://api.test/things").header("x-user", user).body(Text::default()).unwrap()
}

pub(crate) fn user_key() -> impl ratekeeper_tower::key::KeyExtractor {
    ratekeeper_tower::key::header(http::HeaderName::from_static("x-user"))
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn seconds(&self, name: &str) -> u64 {
        self.header(name).parse().unwrap()
    }
}

/// Sends a request through a service and reads the response.
pub(crate) async fn send<S, B>(service: &S, request: Request<Text>) -> Received
where
    S: Service<Request<Text>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: http_body::Body,
    B::Error: std::fmt::Debug,
{
    read(service.clone().oneshot(request).await.unwrap()).await
}

pub(crate) async fn read<B>(response: Response<B>) -> Received
where
    B: http_body::Body,
    B::Error: std::fmt::Debug,
{
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Received { status: head.status, headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
