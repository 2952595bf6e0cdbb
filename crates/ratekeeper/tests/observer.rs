//! Observers: every decision, failure and wait is reported, and nothing changes by being observed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::sync::{Arc, Mutex};

use ratekeeper::{Limiter, LimiterEvent, Quota, Request, Rule};
use support::{TestStore, millis, settle_down, store};

/// The events of a limiter, as text.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn observed() -> (Limiter<TestStore>, Events) {
    let events = Events::default();
    let seen = events.clone();
    let limiter = Limiter::builder()
        .policy("free", [Rule::token_bucket("second", Quota::per_second(1))])
        .policy("pro", [Rule::token_bucket("second", Quota::per_second(10))])
        .observer(move |event: &LimiterEvent<'_>| seen.0.lock().unwrap().push(text(event)))
        .store(store())
        .build()
        .unwrap();
    (limiter, events)
}

fn text(event: &LimiterEvent<'_>) -> String {
    match event {
        LimiterEvent::Decided { policy, key, cost, verb, decision, .. } => {
            format!("{policy} {key} {verb} {cost}: {} by {}", decision.verdict.name(), decision.source.name())
        }
        LimiterEvent::Failed { policy, verb, error, .. } => format!("{policy} {verb}: {error}"),
        LimiterEvent::Waited { policy, cost, waited, .. } => format!("{policy} waited {waited:?} for {cost}"),
        LimiterEvent::WaitCancelled { policy, cost, .. } => format!("{policy} cancelled {cost}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_reported_with_its_policy_and_verb() {
    let (limiter, events) = observed();
    let _ = limiter.check("user").await.unwrap();
    let _ = limiter.check_now("user").unwrap();
    let _ = limiter.verdict_now(Request::new("user").policy("pro").cost(3)).unwrap();
    let _ = limiter.refund(Request::new("user").policy("pro").cost(2)).await.unwrap();
    let _ = limiter.peek("user").await.unwrap();
    assert_eq!(
        events.take(),
        [
            "free user take 1: allow by store",
            "free user take 1: deny by store",
            "pro user take 3: allow by store",
            "pro user refund 2: allow by store",
            "free user peek 0: allow by store",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn waits_are_reported_when_they_end() {
    let (limiter, events) = observed();
    limiter.acquire("user").await.unwrap();
    limiter.acquire("user").await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire("user").await }
    });
    settle_down().await;
    waiter.abort();
    settle_down().await;
    let waits: Vec<String> = events.take().into_iter().filter(|event| !event.contains("take")).collect();
    assert_eq!(waits, ["free waited 0ns for 1", "free waited 1s for 1", "free cancelled 1"]);
    assert!(limiter.acquire_within("user", millis(10)).await.is_err());
    assert_eq!(events.take(), ["free user take 1: deny by store"], "a denial is a decision and no wait");
}

#[test]
fn a_failure_is_reported_with_its_error() {
    let events = Events::default();
    let seen = events.clone();
    let limiter = Limiter::builder()
        .rule(Rule::token_bucket("second", Quota::per_second(1)))
        .observer(move |event: &LimiterEvent<'_>| seen.0.lock().unwrap().push(text(event)))
        .build()
        .unwrap();
    assert!(limiter.check_now(&"k".repeat(5_000)).is_err());
    assert_eq!(events.take(), ["default take: the key is 5000 bytes long; 4096 is the most"]);
}

/// An observer may use the limiter that it observes.
#[test]
fn an_observer_may_ask_the_limiter() {
    let limiter: Arc<Mutex<Option<Limiter>>> = Arc::default();
    let inner = Arc::clone(&limiter);
    let observed = Limiter::builder()
        .rule(Rule::token_bucket("second", Quota::per_second(10)))
        .observer(move |event: &LimiterEvent<'_>| {
            if let LimiterEvent::Decided { key: "user", .. } = event {
                let limiter = inner.lock().unwrap().clone().unwrap();
                assert!(limiter.check_now("observer").unwrap().is_allowed());
            }
        })
        .build()
        .unwrap();
    *limiter.lock().unwrap() = Some(observed.clone());
    assert!(observed.check_now("user").unwrap().is_allowed());
    assert_eq!(observed.check_now(("observer", 0)).unwrap().remaining(), 9);
}
