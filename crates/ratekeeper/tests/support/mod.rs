//! Shared by the tests of the limiter: a clock that follows tokio's, and a store that counts calls and delays them.
//!
//! Tests run with tokio's time paused: when all tasks are idle, it jumps to the next timer. A wait of an hour takes no
//! time, and instants can be compared exactly.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ratekeeper::{
    Clock, Decision, Limiter, MemoryStore, OnQuotaChange, Policy, Rule, Span, Store, StoreError, Terms, Timestamp,
    Verb, store::Ask,
};
use tokio::time::{Instant, sleep};

/// 12 January 2026, at a full second, so that windows of a second begin with the test.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_768_212_847_000_000);

/// A clock that reads tokio's time, paused or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioClock {
    began: Instant,
}

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        // Rounded down: on a clock ahead of tokio's, a task that slept exactly its wait would find too few permits.
        START + Span::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap())
    }
}

/// The embedded store on tokio's clock.
pub(crate) type TestStore = MemoryStore<TokioClock>;

pub(crate) fn store() -> TestStore {
    MemoryStore::with_clock(TokioClock::new())
}

/// A limiter on tokio's clock.
pub(crate) fn limiter(rules: impl IntoIterator<Item = Rule>) -> Limiter<TestStore> {
    limiter_on(store(), rules)
}

pub(crate) fn limiter_on<S: Store>(store: S, rules: impl IntoIterator<Item = Rule>) -> Limiter<S> {
    Limiter::builder().rules(rules).store(store).build().unwrap()
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Lets every task that can run do so, without moving the clock.
pub(crate) async fn settle_down() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Counts the calls of a store, and delays requests and replies.
#[derive(Clone)]
pub(crate) struct DelayedStore<S> {
    inner: S,
    calls: Arc<AtomicU64>,
    request_delay: Duration,
    reply_delay: Duration,
}

impl DelayedStore<TestStore> {
    pub(crate) fn new() -> Self {
        Self::slow(Duration::ZERO, Duration::ZERO)
    }

    pub(crate) fn slow(request_delay: Duration, reply_delay: Duration) -> Self {
        Self { inner: store(), calls: Arc::default(), request_delay, reply_delay }
    }
}

impl<S> DelayedStore<S> {
    /// Decisions made so far; background requests (cancelled, dropped) are not counted.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl<S: Store> Store for DelayedStore<S> {
    type Policy = S::Policy;

    fn install(&self, policy: Policy, on_change: OnQuotaChange) -> Result<Self::Policy, StoreError> {
        self.inner.install(policy, on_change)
    }

    fn decide(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.calls.fetch_add(1, Ordering::SeqCst);
        async move {
            pause(self.request_delay).await;
            let decision = self.inner.decide(asks, verb).await;
            pause(self.reply_delay).await;
            decision
        }
    }

    fn decide_with(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
        terms: Terms,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.calls.fetch_add(1, Ordering::SeqCst);
        async move {
            pause(self.request_delay).await;
            let decision = self.inner.decide_with(asks, verb, terms).await;
            pause(self.reply_delay).await;
            decision
        }
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn submit(&self, ask: Ask<'_, Self::Policy>, verb: Verb) {
        self.inner.submit(ask, verb);
    }
}

/// Does not yield if the delay is zero: even a sleep of zero would let other tasks run in between.
async fn pause(delay: Duration) {
    if delay > Duration::ZERO {
        sleep(delay).await;
    }
}
