//! Everything that can be asked of a limiter, or done to a key, one claim each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use support::{TestStore, Watched, limiter, limiter_on, millis};
use tokio::time::sleep;
use tollgate::{AcquireError, Carry, DecidedBy, Limiter, Micros, Quota, Rule, Source, Store, Verdict};

fn per_minute(limit: u64) -> Rule {
    Rule::token_bucket("minute", Quota::per_minute(limit))
}

fn tenner() -> Limiter<TestStore> {
    limiter([per_minute(10)])
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("user").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn a_check_takes_one() {
    let limiter = tenner();
    let told = limiter.check("user").await.unwrap();
    assert_eq!(told.verdict, Verdict::Allow { wait: Micros::ZERO });
    assert_eq!((told.limit(), told.remaining(), told.reset_after()), (10, 9, Micros::from_secs(6)));
    assert_eq!((told.source, told.decided_by), (Source::Store, DecidedBy::Rule(0)));
}

#[tokio::test(start_paused = true)]
async fn a_check_of_many_is_all_or_nothing() {
    let limiter = tenner();
    assert!(limiter.check_n("user", 7).await.unwrap().is_allowed());
    let told = limiter.check_n("user", 4).await.unwrap();
    assert_eq!(told.verdict, Verdict::Deny { retry_after: Micros::from_secs(6) });
    assert_eq!(remaining(&limiter).await, 3);
    sleep(millis(6_000)).await;
    assert!(limiter.check_n("user", 4).await.unwrap().is_allowed());
    assert_eq!(limiter.check_n("user", 11).await.unwrap().verdict, Verdict::Never);
    assert_eq!(limiter.check_n("user", 11).await.unwrap().retry_after(), None);
}

#[tokio::test(start_paused = true)]
async fn a_peek_and_a_check_of_nothing_charge_nothing() {
    let limiter = tenner();
    for _ in 0..100 {
        assert!(limiter.check_n("user", 0).await.unwrap().is_allowed());
        assert_eq!(remaining(&limiter).await, 10);
    }
    assert!(limiter.store().is_empty());
}

/// No runtime anywhere: the embedded store answers at once.
#[test]
fn trying_needs_no_runtime() {
    let limiter = Limiter::builder().rule(Rule::sliding_log("hour", Quota::per_hour(3))).build().unwrap();
    let told: Vec<bool> = (0..5).map(|_| limiter.try_now("user").unwrap().is_allowed()).collect();
    assert_eq!(told, [true, true, true, false, false]);
    assert_eq!(limiter.try_now_n("other", 4).unwrap().verdict, Verdict::Never);
    assert!(limiter.try_now_n("other", 3).unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_refund_returns_and_never_lifts_above_full() {
    let limiter = tenner();
    assert!(limiter.check_n("user", 6).await.unwrap().is_allowed());
    assert_eq!(limiter.refund("user", 4).await.unwrap().remaining(), 8);
    assert_eq!(limiter.refund("user", 400).await.unwrap().remaining(), 10);
    assert_eq!(limiter.refund("never seen", 4).await.unwrap().remaining(), 10);
}

#[tokio::test(start_paused = true)]
async fn settling_for_less_gives_the_rest_back() {
    let limiter = tenner();
    let reservation = limiter.reserve("user", 8).await.unwrap();
    assert_eq!((reservation.cost(), reservation.wait()), (8, Micros::ZERO));
    assert_eq!(reservation.decision().remaining(), 2);
    assert_eq!(reservation.settle(3).await.unwrap().remaining(), 7);
}

#[tokio::test(start_paused = true)]
async fn settling_for_more_charges_the_rest_even_into_debt() {
    let limiter = tenner();
    let reservation = limiter.reserve("user", 8).await.unwrap();
    let told = reservation.settle(25).await.unwrap();
    assert_eq!((told.remaining(), told.reset_after()), (0, Micros::from_secs(150)));
}

#[tokio::test(start_paused = true)]
async fn settling_for_the_estimate_changes_nothing() {
    let limiter = tenner();
    assert_eq!(limiter.reserve("user", 8).await.unwrap().settle(8).await.unwrap().remaining(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reservation_gives_everything_back() {
    let limiter = tenner();
    let reservation = limiter.reserve("user", 8).await.unwrap();
    assert_eq!(reservation.cancel().await.unwrap().remaining(), 10);
}

/// The safe side, and what a crash would leave behind.
#[tokio::test(start_paused = true)]
async fn a_dropped_reservation_stays_charged() {
    let limiter = tenner();
    drop(limiter.reserve("user", 8).await.unwrap());
    assert_eq!(remaining(&limiter).await, 2);
    assert_eq!(limiter.settle("user", 8, 3).await.unwrap().remaining(), 7, "until its own books are settled");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_cannot_be_had_says_why() {
    let limiter = tenner();
    assert!(limiter.check_n("user", 5).await.unwrap().is_allowed());
    let refused = limiter.reserve("user", 8).await.unwrap_err();
    assert!(
        matches!(refused, AcquireError::TooLong { retry_after } if retry_after == Micros::from_secs(18)),
        "{refused}"
    );
    let refused = limiter.reserve("user", 80).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Never { cost: 80, limit: 10 }), "{refused}");
    assert_eq!(remaining(&limiter).await, 5);
}

/// For a moment ahead: the wait is told, and until then it can be cancelled if nobody stands behind it.
#[tokio::test(start_paused = true)]
async fn a_reservation_ahead_can_be_cancelled_while_it_is_the_last() {
    let limiter = tenner();
    assert!(limiter.check_n("user", 10).await.unwrap().is_allowed());
    let within = millis(60_000);
    let first = limiter.reserve_within("user", 1, within).await.unwrap();
    let second = limiter.reserve_within("user", 1, within).await.unwrap();
    assert_eq!((first.wait(), second.wait()), (Micros::from_secs(6), Micros::from_secs(12)));
    let _ = second.cancel().await.unwrap();
    assert_eq!(limiter.reserve_within("user", 1, within).await.unwrap().wait(), Micros::from_secs(12));
    let _ = first.cancel().await.unwrap();
    let next = limiter.reserve_within("user", 1, within).await.unwrap();
    assert_eq!(next.wait(), Micros::from_secs(18), "one stood behind the first, so its place is spent");
}

/// However long the answer was on its way, the reservation it tells of can be found again.
#[tokio::test(start_paused = true)]
async fn a_reservation_told_slowly_can_be_cancelled() {
    let rule = Rule::sliding_log("minute", Quota::per_minute(1));
    let limiter = limiter_on(Watched::slow(millis(0), millis(50)), [rule]);
    assert!(limiter.check("user").await.unwrap().is_allowed());
    let ahead = limiter.reserve_within("user", 1, millis(60_000)).await.unwrap();
    let _ = ahead.cancel().await.unwrap();
    sleep(millis(60_000)).await;
    assert_eq!(remaining(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_penalty_is_charged_without_asking() {
    let limiter = tenner();
    let told = limiter.penalize("user", 15).await.unwrap();
    assert_eq!((told.remaining(), told.reset_after()), (0, Micros::from_secs(90)));
    assert_eq!(limiter.check("user").await.unwrap().retry_after(), Some(Micros::from_secs(36)));
}

#[tokio::test(start_paused = true)]
async fn a_block_refuses_until_it_ends_or_is_lifted() {
    let limiter = tenner();
    let told = limiter.block("user", millis(5_000)).await.unwrap();
    assert_eq!(told.decided_by, DecidedBy::Block);
    let told = limiter.check("user").await.unwrap();
    assert_eq!(told.verdict, Verdict::Deny { retry_after: Micros::from_secs(5) });
    assert!(limiter.check("other").await.unwrap().is_allowed());
    sleep(millis(5_000)).await;
    assert_eq!(limiter.check("user").await.unwrap().remaining(), 9, "what was refused was not charged");

    let _ = limiter.block("user", Duration::MAX).await.unwrap();
    assert!(!limiter.check("user").await.unwrap().is_allowed());
    let _ = limiter.block("user", Duration::ZERO).await.unwrap();
    assert!(limiter.check("user").await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_reset_forgets_everything() {
    let limiter = tenner();
    let _ = limiter.penalize("user", 1_000).await.unwrap();
    let _ = limiter.block("user", millis(5_000)).await.unwrap();
    assert_eq!(limiter.reset("user").await.unwrap().remaining(), 10);
    assert!(limiter.check_n("user", 10).await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_changed_while_it_runs() {
    for (carry, left) in [(Carry::Keep, 14), (Carry::Scale, 8), (Carry::Fresh, 20)] {
        let limiter = tenner();
        assert!(limiter.check_n("user", 6).await.unwrap().is_allowed());
        limiter.set_rule_with(per_minute(20), carry).unwrap();
        assert_eq!(remaining(&limiter).await, left, "{carry:?}");
        assert_eq!(limiter.policy().rules()[0].rule(), &per_minute(20));
    }
    let limiter = tenner();
    assert!(limiter.check_n("user", 6).await.unwrap().is_allowed());
    limiter.set_rule(per_minute(8)).unwrap();
    assert_eq!(remaining(&limiter).await, 2, "unless told otherwise, used stays used");
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_added_and_taken_out_again() {
    let limiter = tenner();
    let day = Rule::sliding_log("day", Quota::per_day(2));
    limiter.set_rule(day.clone()).unwrap();
    let told: Vec<bool> = [limiter.check("user").await, limiter.check("user").await, limiter.check("user").await]
        .map(|told| told.unwrap().is_allowed())
        .into();
    assert_eq!(told, [true, true, false]);
    limiter.set_rule(day.enabled(false)).unwrap();
    assert_eq!(remaining(&limiter).await, 8);
}

#[tokio::test(start_paused = true)]
async fn a_bad_rule_leaves_the_old_one_in_force() {
    let limiter = tenner();
    let refused = limiter.set_rule(per_minute(0)).unwrap_err().to_string();
    assert!(refused.contains("limit is 0"), "{refused}");
    assert_eq!(remaining(&limiter).await, 10);
    assert_eq!(limiter.policy().rules()[0].rule(), &per_minute(10));
}

/// Those who wait were promised a moment by the old rule; the change keeps them from meeting others there.
#[tokio::test(start_paused = true)]
async fn a_change_keeps_promises() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("user", 1).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire("user", 1).await.unwrap().waited }
    });
    support::settle_down().await;
    limiter.set_rule(Rule::token_bucket("second", Quota::per_second(2))).unwrap();
    assert_eq!(waiter.await.unwrap(), millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_rule_watches_and_refuses_nobody() {
    let limiter = limiter([per_minute(10), Rule::sliding_log("strict", Quota::per_minute(1)).shadow(true)]);
    assert!(limiter.check("user").await.unwrap().is_allowed());
    let told = limiter.check("user").await.unwrap();
    assert!(told.is_allowed());
    assert!(matches!(told.rules[1].verdict, Verdict::Deny { .. }), "and says what it would have said");
}
