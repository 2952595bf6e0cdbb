//! Several policies in one limiter: chosen per request, counted separately, never mistaken for each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use ratekeeper::{AcquireError, BuildError, Limiter, ManualClock, Quota, Request, RequestError, Rule};
use support::{limiter_on, millis, store};

fn per_minute(limit: u64) -> Rule {
    Rule::token_bucket("minute", Quota::per_minute(limit))
}

fn tiers() -> Limiter {
    let builder = Limiter::builder().policy("free", [per_minute(2)]).policy("pro", [per_minute(10)]);
    builder.policy("enterprise", [per_minute(1_000)]).build().unwrap()
}

#[test]
fn the_request_selects_the_policy() {
    let limiter = tiers();
    for (tier, limit) in [("free", 2), ("pro", 10), ("enterprise", 1_000)] {
        let decision = limiter.check_now(Request::new("user").policy(tier)).unwrap();
        assert_eq!((decision.limit(), decision.remaining()), (limit, limit - 1), "counted separately: {tier}");
    }
    assert!(limiter.policy_names().eq(["enterprise", "free", "pro"]));
}

#[test]
fn a_request_without_a_policy_is_decided_by_the_first() {
    assert_eq!(tiers().check_now("user").unwrap().limit(), 2);
    let own = Limiter::builder().policy("pro", [per_minute(10)]).rule(per_minute(3)).build().unwrap();
    assert_eq!(own.check_now("user").unwrap().limit(), 3, "rules of the limiter itself come first");
    assert!(own.policy_names().eq(["default", "pro"]));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_policy_is_an_error_in_every_way_of_asking() {
    let limiter = tiers();
    let request = Request::new("user").policy("platinum");
    let Err(RequestError::UnknownPolicy(error)) = limiter.check_now(request) else { panic!("decided") };
    assert_eq!(error.to_string(), "no policy is named \"platinum\"; the limiter has enterprise, free, pro");
    assert!(matches!(limiter.check(request).await, Err(RequestError::UnknownPolicy(_))));
    assert!(matches!(limiter.verdict_now(request), Err(RequestError::UnknownPolicy(_))));
    assert!(matches!(limiter.peek(request).await, Err(RequestError::UnknownPolicy(_))));
    assert!(matches!(limiter.refund(request).await, Err(RequestError::UnknownPolicy(_))));
    assert!(matches!(limiter.acquire(request).await, Err(AcquireError::UnknownPolicy(_))));
    assert!(matches!(limiter.hold(request).await, Err(AcquireError::UnknownPolicy(_))));
    assert!(matches!(limiter.reserve(request).await, Err(AcquireError::UnknownPolicy(_))));
    assert!(limiter.with_policy("platinum").is_err());
    assert!(limiter.store().is_empty(), "nothing was charged");
}

/// A limiter under one of its policies is the same limiter: same counts, every method.
#[tokio::test(start_paused = true)]
async fn with_policy_changes_the_default() {
    let limiter = tiers();
    let pro = limiter.with_policy("pro").unwrap();
    assert_eq!(pro.check(("user", 4)).await.unwrap().remaining(), 6);
    assert_eq!(limiter.peek(Request::new("user").policy("pro")).await.unwrap().remaining(), 6);
    assert_eq!(limiter.peek("user").await.unwrap().remaining(), 2);

    pro.set_rule(per_minute(20)).unwrap();
    assert_eq!(limiter.peek(Request::new("user").policy("pro")).await.unwrap().remaining(), 16);
    assert_eq!((pro.policy().name(), limiter.policy().name()), ("pro", "free"));
}

#[tokio::test(start_paused = true)]
async fn waits_reservations_and_leases_keep_their_policy() {
    let slot = |name: &str| Rule::concurrency(name, 1, millis(60_000));
    let limiter = Limiter::builder()
        .policy("rate", [per_minute(10)])
        .policy("a", [slot("slot")])
        .policy("b", [slot("slot")])
        .store(store())
        .build()
        .unwrap();
    let rate = Request::new("user").policy("rate");
    limiter.acquire(rate.cost(10)).await.unwrap();
    assert_eq!(limiter.acquire(rate).await.unwrap().waited, millis(6_000));

    let reservation = limiter.reserve(Request::new("other").policy("rate").cost(8)).await.unwrap();
    assert_eq!(reservation.settle(3).await.unwrap().remaining(), 7);

    // The same key under two concurrency rules: a release under one does not wake or free the other.
    let (a, b) = (Request::new("pool").policy("a"), Request::new("pool").policy("b"));
    let held = limiter.hold(a).await.unwrap();
    let other = limiter.hold_within(b, millis(0)).await.unwrap();
    assert!(limiter.hold_within(a, millis(50)).await.is_err());
    drop(other);
    assert!(limiter.hold_within(a, millis(50)).await.is_err());
    held.release().await.unwrap();
    assert!(limiter.hold_within(a, millis(0)).await.is_ok());
}

#[test]
fn names_of_policies_must_differ() {
    let twice = Limiter::builder().policy("free", [per_minute(1)]).policy("free", [per_minute(2)]).build();
    let Err(error @ BuildError::DuplicatePolicy { .. }) = twice else { panic!("built") };
    assert_eq!(error.to_string(), "two policies are named \"free\"; give each its own name");
    let own = Limiter::builder().name("free").rule(per_minute(1)).policy("free", [per_minute(2)]).build();
    assert!(matches!(own, Err(BuildError::DuplicatePolicy { .. })));
    let empty = Limiter::builder().policy("free", []).build().unwrap_err();
    assert!(empty.to_string().contains("policy \"free\" has no rules"), "{empty}");
}

/// Limiters with one store share the policies that have one name, whichever limiter has them.
#[tokio::test(start_paused = true)]
async fn policies_are_shared_by_name() {
    let store = store();
    let tiers = Limiter::builder().policy("free", [per_minute(2)]).policy("pro", [per_minute(10)]);
    let tiers = tiers.store(store.clone()).build().unwrap();
    let pro = Limiter::builder().name("pro").rule(per_minute(10)).store(store.clone()).build().unwrap();
    let other = limiter_on(store, [per_minute(10)]);
    assert!(tiers.check(Request::new("user").policy("pro").cost(4)).await.unwrap().is_allowed());
    assert_eq!(pro.peek("user").await.unwrap().remaining(), 6);
    assert_eq!(other.peek("user").await.unwrap().remaining(), 10);
}

#[test]
fn every_form_of_a_request_is_accepted() {
    let limiter = Limiter::builder().rule(per_minute(100)).clock(ManualClock::default()).build().unwrap();
    let (owned, boxed) = ("user".to_owned(), Box::<str>::from("user"));
    let remaining = [
        limiter.check_now("user"),
        limiter.check_now(&owned),
        limiter.check_now(&*boxed),
        limiter.check_now(("user", 5)),
        limiter.check_now((&owned, 5)),
        limiter.check_now(Request::new(&owned).cost(7)),
        limiter.check_now(Request::new("user").policy("default")),
        limiter.check_now(("user", 0)),
    ]
    .map(|decision| decision.unwrap().remaining());
    assert_eq!(remaining, [99, 98, 97, 92, 87, 80, 79, 79]);
}

/// A cost of 0 is admitted while nothing is left, because it takes nothing.
#[test]
fn a_cost_of_0_is_admitted_by_an_exhausted_key() {
    let limiter = Limiter::builder().rule(per_minute(2)).clock(ManualClock::default()).build().unwrap();
    assert!(limiter.check_now(("user", 2)).unwrap().is_allowed());
    let decision = limiter.check_now(("user", 0)).unwrap();
    assert_eq!((decision.is_allowed(), decision.remaining()), (true, 0));
    assert!(!limiter.check_now("user").unwrap().is_allowed());
}
