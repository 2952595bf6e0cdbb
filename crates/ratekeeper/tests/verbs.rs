//! Every way to ask a limiter and every change of a key, one claim each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::time::Duration;

use ratekeeper::{
    AcquireError, DecidedBy, Limiter, OnQuotaChange, Quota, RetryAfter, Rule, Source, Span, Store, Verdict,
};
use support::{DelayedStore, TestStore, limiter, limiter_on, millis};
use tokio::time::sleep;

fn per_minute(limit: u64) -> Rule {
    Rule::token_bucket("minute", Quota::per_minute(limit))
}

fn ten_per_minute() -> Limiter<TestStore> {
    limiter([per_minute(10)])
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("user").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn a_check_takes_one_permit() {
    let limiter = ten_per_minute();
    let decision = limiter.check("user").await.unwrap();
    assert_eq!(decision.verdict, Verdict::Allow { wait: Span::ZERO });
    assert_eq!((decision.limit(), decision.remaining(), decision.reset_after()), (10, 9, Duration::from_secs(6)));
    assert_eq!((decision.source, decision.decided_by), (Source::Store, DecidedBy::Rule(0)));
}

#[tokio::test(start_paused = true)]
async fn a_cost_is_taken_whole_or_not_at_all() {
    let limiter = ten_per_minute();
    assert!(limiter.check(("user", 7)).await.unwrap().is_allowed());
    let decision = limiter.check(("user", 4)).await.unwrap();
    assert_eq!(decision.verdict, Verdict::Deny { retry_after: Span::from_secs(6) });
    assert_eq!(remaining(&limiter).await, 3);
    sleep(millis(6_000)).await;
    assert!(limiter.check(("user", 4)).await.unwrap().is_allowed());
    assert_eq!(limiter.check(("user", 11)).await.unwrap().verdict, Verdict::Never);
    assert_eq!(limiter.check(("user", 11)).await.unwrap().retry_after(), RetryAfter::Never);
}

#[tokio::test(start_paused = true)]
async fn a_peek_and_a_cost_of_0_charge_nothing() {
    let limiter = ten_per_minute();
    for _ in 0..100 {
        assert!(limiter.check(("user", 0)).await.unwrap().is_allowed());
        assert_eq!(remaining(&limiter).await, 10);
    }
    assert!(limiter.store().is_empty());
}

/// The embedded store answers at once.
#[test]
fn check_now_needs_no_runtime() {
    let limiter = Limiter::builder().rule(Rule::sliding_log("hour", Quota::per_hour(3))).build().unwrap();
    let allowed: Vec<bool> = (0..5).map(|_| limiter.check_now("user").unwrap().is_allowed()).collect();
    assert_eq!(allowed, [true, true, true, false, false]);
    assert_eq!(limiter.check_now(("other", 4)).unwrap().verdict, Verdict::Never);
    assert!(limiter.check_now(("other", 3)).unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_refund_never_exceeds_the_limit() {
    let limiter = ten_per_minute();
    assert!(limiter.check(("user", 6)).await.unwrap().is_allowed());
    assert_eq!(limiter.refund(("user", 4)).await.unwrap().remaining(), 8);
    assert_eq!(limiter.refund(("user", 400)).await.unwrap().remaining(), 10);
    assert_eq!(limiter.refund(("never seen", 4)).await.unwrap().remaining(), 10);
}

#[tokio::test(start_paused = true)]
async fn settling_for_less_returns_the_difference() {
    let limiter = ten_per_minute();
    let reservation = limiter.reserve(("user", 8)).await.unwrap();
    assert_eq!((reservation.cost(), reservation.wait()), (8, Duration::ZERO));
    assert_eq!(reservation.decision().remaining(), 2);
    assert_eq!(reservation.settle(3).await.unwrap().remaining(), 7);
}

#[tokio::test(start_paused = true)]
async fn settling_for_more_charges_the_difference_even_into_debt() {
    let limiter = ten_per_minute();
    let reservation = limiter.reserve(("user", 8)).await.unwrap();
    let decision = reservation.settle(25).await.unwrap();
    assert_eq!((decision.remaining(), decision.reset_after()), (0, Duration::from_secs(150)));
}

#[tokio::test(start_paused = true)]
async fn settling_for_the_estimate_changes_nothing() {
    let limiter = ten_per_minute();
    assert_eq!(limiter.reserve(("user", 8)).await.unwrap().settle(8).await.unwrap().remaining(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reservation_returns_all_permits() {
    let limiter = ten_per_minute();
    let reservation = limiter.reserve(("user", 8)).await.unwrap();
    assert_eq!(reservation.cancel().await.unwrap().remaining(), 10);
}

/// The same as after a crash: no limit is exceeded.
#[tokio::test(start_paused = true)]
async fn a_dropped_reservation_stays_charged() {
    let limiter = ten_per_minute();
    drop(limiter.reserve(("user", 8)).await.unwrap());
    assert_eq!(remaining(&limiter).await, 2);
    assert_eq!(limiter.settle(("user", 8), 3).await.unwrap().remaining(), 7, "until it is settled by key");
}

#[tokio::test(start_paused = true)]
async fn a_denied_reservation_names_the_reason() {
    let limiter = ten_per_minute();
    assert!(limiter.check(("user", 5)).await.unwrap().is_allowed());
    let denied = limiter.reserve(("user", 8)).await.unwrap_err();
    assert!(matches!(denied, AcquireError::Denied { retry_after } if retry_after == millis(18_000)), "{denied}");
    let denied = limiter.reserve(("user", 80)).await.unwrap_err();
    assert!(matches!(denied, AcquireError::ExceedsLimit { cost: 80, limit: 10 }), "{denied}");
    assert_eq!(remaining(&limiter).await, 5);
}

/// A reservation for a later time can be cancelled until then, if no other one comes after it.
#[tokio::test(start_paused = true)]
async fn a_later_reservation_can_be_cancelled_while_it_is_the_last() {
    let limiter = ten_per_minute();
    assert!(limiter.check(("user", 10)).await.unwrap().is_allowed());
    let within = millis(60_000);
    let first = limiter.reserve_within("user", within).await.unwrap();
    let second = limiter.reserve_within("user", within).await.unwrap();
    assert_eq!((first.wait(), second.wait()), (millis(6_000), millis(12_000)));
    let _ = second.cancel().await.unwrap();
    assert_eq!(limiter.reserve_within("user", within).await.unwrap().wait(), millis(12_000));
    let _ = first.cancel().await.unwrap();
    let next = limiter.reserve_within("user", within).await.unwrap();
    assert_eq!(next.wait(), millis(18_000), "a reservation followed the first, so its permit is spent");
}

/// A reservation is found again whatever the delay of the reply that made it.
#[tokio::test(start_paused = true)]
async fn a_reservation_with_a_slow_reply_can_be_cancelled() {
    let rule = Rule::sliding_log("minute", Quota::per_minute(1));
    let limiter = limiter_on(DelayedStore::slow(millis(0), millis(50)), [rule]);
    assert!(limiter.check("user").await.unwrap().is_allowed());
    let ahead = limiter.reserve_within("user", millis(60_000)).await.unwrap();
    let _ = ahead.cancel().await.unwrap();
    sleep(millis(60_000)).await;
    assert_eq!(remaining(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_penalty_is_charged_unconditionally() {
    let limiter = ten_per_minute();
    let decision = limiter.penalize(("user", 15)).await.unwrap();
    assert_eq!((decision.remaining(), decision.reset_after()), (0, Duration::from_secs(90)));
    assert_eq!(limiter.check("user").await.unwrap().retry_after(), RetryAfter::After(Duration::from_secs(36)));
}

#[tokio::test(start_paused = true)]
async fn a_block_denies_until_it_ends_or_is_lifted() {
    let limiter = ten_per_minute();
    let decision = limiter.block("user", millis(5_000)).await.unwrap();
    assert_eq!(decision.decided_by, DecidedBy::Block);
    let decision = limiter.check("user").await.unwrap();
    assert_eq!(decision.verdict, Verdict::Deny { retry_after: Span::from_secs(5) });
    assert!(limiter.check("other").await.unwrap().is_allowed());
    sleep(millis(5_000)).await;
    assert_eq!(limiter.check("user").await.unwrap().remaining(), 9, "a denied request is not charged");

    let _ = limiter.block("user", Duration::MAX).await.unwrap();
    assert!(!limiter.check("user").await.unwrap().is_allowed());
    let _ = limiter.block("user", Duration::ZERO).await.unwrap();
    assert!(limiter.check("user").await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_reset_deletes_everything() {
    let limiter = ten_per_minute();
    let _ = limiter.penalize(("user", 1_000)).await.unwrap();
    let _ = limiter.block("user", millis(5_000)).await.unwrap();
    assert_eq!(limiter.reset("user").await.unwrap().remaining(), 10);
    assert!(limiter.check(("user", 10)).await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_rule_can_be_changed_at_run_time() {
    for (on_change, left) in [(OnQuotaChange::Keep, 14), (OnQuotaChange::Scale, 8), (OnQuotaChange::Fresh, 20)] {
        let limiter = ten_per_minute();
        assert!(limiter.check(("user", 6)).await.unwrap().is_allowed());
        limiter.set_rule_with(per_minute(20), on_change).unwrap();
        assert_eq!(remaining(&limiter).await, left, "{on_change:?}");
        assert_eq!(limiter.policy().rules()[0].rule(), &per_minute(20));
    }
    let limiter = ten_per_minute();
    assert!(limiter.check(("user", 6)).await.unwrap().is_allowed());
    limiter.set_rule(per_minute(8)).unwrap();
    assert_eq!(remaining(&limiter).await, 2, "by default, used permits stay used");
}

#[tokio::test(start_paused = true)]
async fn a_rule_can_be_added_and_disabled() {
    let limiter = ten_per_minute();
    let day = Rule::sliding_log("day", Quota::per_day(2));
    limiter.set_rule(day.clone()).unwrap();
    let allowed: Vec<bool> = [limiter.check("user").await, limiter.check("user").await, limiter.check("user").await]
        .map(|decision| decision.unwrap().is_allowed())
        .into();
    assert_eq!(allowed, [true, true, false]);
    limiter.set_rule(day.enabled(false)).unwrap();
    assert_eq!(remaining(&limiter).await, 8);
}

#[tokio::test(start_paused = true)]
async fn a_bad_rule_leaves_the_old_one_in_force() {
    let limiter = ten_per_minute();
    let denied = limiter.set_rule(per_minute(0)).unwrap_err().to_string();
    assert!(denied.contains("limit is 0"), "{denied}");
    assert_eq!(remaining(&limiter).await, 10);
    assert_eq!(limiter.policy().rules()[0].rule(), &per_minute(10));
}

/// A waiter keeps the time that the old rule gave it.
#[tokio::test(start_paused = true)]
async fn a_change_keeps_reserved_times() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("user").await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire("user").await.unwrap().waited }
    });
    support::settle_down().await;
    limiter.set_rule(Rule::token_bucket("second", Quota::per_second(2))).unwrap();
    assert_eq!(waiter.await.unwrap(), millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_rule_is_evaluated_and_not_enforced() {
    let limiter = limiter([per_minute(10), Rule::sliding_log("strict", Quota::per_minute(1)).shadow(true)]);
    assert!(limiter.check("user").await.unwrap().is_allowed());
    let decision = limiter.check("user").await.unwrap();
    assert!(decision.is_allowed());
    assert!(matches!(decision.rules[1].verdict, Verdict::Deny { .. }), "its verdict is reported");
}
