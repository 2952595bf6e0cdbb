//! What the tests of the front door stand on: a clock that goes with tokio's, and stores that count or dawdle.
//!
//! Tests run with tokio's time paused: when nobody has anything to do, it jumps to the next timer. So a wait of an hour
//! takes no time, and a moment can be compared exactly.

#![allow(dead_code, reason = "each test file uses what it needs of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tollgate::{Ask, Carry, Clock, Decision, Limiter, MemoryStore, Micros, Policy, Rule, Store, StoreError, Verb};

/// 12 January 2026, at a full second, so that windows of a second begin with the test.
pub(crate) const START: Micros = Micros(1_768_212_847_000_000);

/// Tells tokio's time, paused or not.
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
    fn now(&self) -> Micros {
        // Rounded down: a clock that runs ahead of the sleepers would let them find less than they slept for.
        START + Micros(u64::try_from(self.began.elapsed().as_micros()).unwrap())
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

/// Counts the calls that reach a store, and takes its time over them.
#[derive(Clone)]
pub(crate) struct Watched<S> {
    inner: S,
    calls: Arc<AtomicU64>,
    /// How long the question travels, and how long the answer.
    pub(crate) way_there: Duration,
    pub(crate) way_back: Duration,
}

impl Watched<TestStore> {
    pub(crate) fn new() -> Self {
        Self::slow(Duration::ZERO, Duration::ZERO)
    }

    pub(crate) fn slow(way_there: Duration, way_back: Duration) -> Self {
        Self { inner: store(), calls: Arc::default(), way_there, way_back }
    }
}

impl<S> Watched<S> {
    /// Decisions asked for so far; what was told in passing (cancelled, dropped) is not among them.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl<S: Store> Store for Watched<S> {
    type Policy = S::Policy;

    fn install(&self, policy: Policy, carry: Carry) -> Result<Self::Policy, StoreError> {
        self.inner.install(policy, carry)
    }

    fn install_beside(&self, policy: Policy) -> Result<Self::Policy, StoreError> {
        self.inner.install_beside(policy)
    }

    fn decide(
        &self,
        asks: &[Ask<'_, Self::Policy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.calls.fetch_add(1, Ordering::SeqCst);
        async move {
            travel(self.way_there).await;
            let decision = self.inner.decide(asks, verb).await;
            travel(self.way_back).await;
            decision
        }
    }

    fn now(&self) -> Micros {
        self.inner.now()
    }

    fn tell(&self, ask: Ask<'_, Self::Policy>, verb: Verb) {
        self.inner.tell(ask, verb);
    }
}

/// No sleep at all where there is no way: even one of zero would let others run in between.
async fn travel(way: Duration) {
    if way > Duration::ZERO {
        sleep(way).await;
    }
}
