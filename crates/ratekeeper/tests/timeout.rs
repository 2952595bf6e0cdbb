//! `acquire_within`: denied at once if the deadline cannot be met, and never late.
//!
//! The round trip to the store counts against the deadline. A round trip that takes the whole time is a denial, and so is a
//! timer that fires too late. A denial charges nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::time::Duration;

use ratekeeper::{AcquireError, Limiter, Quota, Rule, Store};
use support::{DelayedStore, limiter, limiter_on, millis, settle_down};
use tokio::time::{Instant, advance, sleep};

fn per_second(limit: u64) -> Rule {
    Rule::token_bucket("second", Quota::per_second(limit))
}

#[track_caller]
fn retry_after<T: std::fmt::Debug>(result: Result<T, AcquireError>) -> Duration {
    match result {
        Err(AcquireError::Denied { retry_after }) => retry_after,
        other => panic!("expected a denial, found {other:?}"),
    }
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("partner").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_is_a_denial_at_once() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner").await.unwrap();
    let began = Instant::now();
    let denied = limiter.acquire_within("partner", millis(999)).await;
    assert_eq!(retry_after(denied), millis(1_000));
    assert_eq!(began.elapsed(), millis(0));

    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_met_exactly_is_met() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner").await.unwrap();
    let acquired = limiter.acquire_within("partner", millis(1_000)).await.unwrap();
    assert_eq!(acquired.waited, millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_tries() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire_within("partner", Duration::ZERO).await.unwrap();
    let denied = limiter.acquire_within("partner", Duration::ZERO).await;
    assert_eq!(retry_after(denied), millis(1_000));
}

/// Denied requests reserve nothing, so a request with a longer timeout does not wait for them.
#[tokio::test(start_paused = true)]
async fn denied_requests_do_not_delay_others() {
    let limiter = limiter([per_second(10)]);
    limiter.acquire(("partner", 10)).await.unwrap();
    for _ in 0..100 {
        assert!(limiter.acquire_within(("partner", 5), millis(499)).await.is_err());
    }
    assert_eq!(limiter.acquire_within(("partner", 5), millis(500)).await.unwrap().waited, millis(500));
}

#[tokio::test(start_paused = true)]
async fn the_round_trip_counts() {
    // 300 ms in each direction, and one second to wait from the time the request arrives.
    let store = DelayedStore::slow(millis(300), millis(300));
    let limiter = limiter_on(store, [per_second(1)]);
    limiter.acquire("partner").await.unwrap();
    sleep(millis(10_000)).await;

    limiter.acquire("partner").await.unwrap();
    let began = Instant::now();
    // Sent at 0, decided at 300 ms, free 400 ms later: later than 600 ms.
    assert!(limiter.acquire_within("partner", millis(600)).await.is_err());
    assert!(began.elapsed() <= millis(600), "{:?}", began.elapsed());
}

/// Granted in time, but the reply came after the deadline: refunded and denied.
#[tokio::test(start_paused = true)]
async fn a_round_trip_longer_than_the_timeout_is_a_denial() {
    for (there, back) in [(0, 700), (350, 350), (700, 0), (250, 250)] {
        let limiter = limiter_on(DelayedStore::slow(millis(there), millis(back)), [per_second(5)]);
        let began = Instant::now();
        let denied = limiter.acquire_within("partner", millis(500)).await;
        assert!(denied.is_err(), "{there} ms there and {back} ms back: {denied:?}");
        assert!(began.elapsed() <= millis(there + back), "reported when the reply comes");
        sleep(millis(1)).await;
        // Too short for a permit to be refilled.
        assert_eq!(remaining(&limiter).await, 5, "{there} ms there and {back} ms back: nothing is charged");
    }
}

/// Reserved with a wait, but the reply leaves too little time for it: refunded.
#[tokio::test(start_paused = true)]
async fn a_wait_that_no_longer_fits_is_given_back() {
    let limiter =
        limiter_on(DelayedStore::slow(millis(0), millis(400)), [Rule::token_bucket("minute", Quota::per_minute(1))]);
    limiter.acquire("partner").await.unwrap();
    // Decided 400 ms after the first grant, so reserved for 59.6 s later; the reply takes 400 ms, which exceeds the timeout.
    let denied = limiter.acquire_within("partner", millis(59_700)).await;
    assert!(denied.is_err(), "{denied:?}");
    sleep(millis(60_000)).await;
    assert_eq!(remaining(&limiter).await, 1, "the permit was refunded");
}

#[tokio::test(start_paused = true)]
async fn a_grant_never_takes_longer_than_the_timeout() {
    let limiter =
        limiter_on(DelayedStore::slow(millis(7), millis(13)), [Rule::sliding_log("second", Quota::per_second(5))]);
    let mut tasks = tokio::task::JoinSet::new();
    for waiter in 0..200_u64 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            sleep(millis(waiter * 37)).await;
            let (timeout, began) = (millis(1 + waiter * 29 % 1_500), Instant::now());
            let outcome = limiter.acquire_within(("partner", 1 + waiter % 3), timeout).await;
            let took = began.elapsed();
            if outcome.is_ok() {
                assert!(took <= timeout, "{took:?} of {timeout:?}");
            } else {
                assert!(took <= timeout.max(millis(20)), "a denial is reported as soon as it is known: {took:?}");
            }
            outcome.is_ok()
        });
    }
    let granted = tasks.join_all().await.into_iter().filter(|granted| *granted).count();
    assert!((20..150).contains(&granted), "{granted} were granted");
}

/// The runtime was busy: the permits were due in time, the task woke up too late.
#[tokio::test(start_paused = true)]
async fn a_task_that_wakes_up_late_is_denied() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner").await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire_within("partner", millis(1_200)).await }
    });
    settle_down().await;
    advance(millis(1_700)).await;
    let denied = waiter.await.unwrap();
    let Err(AcquireError::DeadlineMissed { late_by }) = denied else { panic!("{denied:?}") };
    assert_eq!(late_by, millis(500));
    assert_eq!(remaining(&limiter).await, 1, "the permit was refunded");
}

#[tokio::test(start_paused = true)]
async fn a_late_timer_within_the_timeout_is_a_grant() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner").await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire_within("partner", millis(2_000)).await }
    });
    settle_down().await;
    advance(millis(1_700)).await;
    assert_eq!(waiter.await.unwrap().unwrap().waited, millis(1_700));
}

/// A deadline covers the delay of a shaped rule.
#[tokio::test(start_paused = true)]
async fn a_deadline_covers_the_delay_of_a_shaped_rule() {
    let limiter = limiter([Rule::leaky_bucket_shaped("even", Quota::per_second(10))]);
    for turn in 0..5_u64 {
        // Reserved for 0, 100, 200, 300 and 400 ms.
        let reservation = limiter.reserve_within("partner", millis(60_000)).await.unwrap();
        assert_eq!(reservation.wait(), millis(100 * turn));
    }
    let denied = limiter.acquire_within("partner", millis(499)).await;
    assert_eq!(retry_after(denied), millis(500));
    assert_eq!(limiter.acquire_within("partner", millis(500)).await.unwrap().waited, millis(500));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_fails_whatever_the_timeout() {
    let limiter = limiter([per_second(5)]);
    for timeout in [Duration::ZERO, millis(10), Duration::MAX] {
        let denied = limiter.acquire_within(("partner", 6), timeout).await;
        assert!(matches!(denied, Err(AcquireError::ExceedsLimit { cost: 6, limit: 5 })), "{denied:?}");
    }
    assert_eq!(remaining(&limiter).await, 5);
}
