//! Waiting with a deadline: refused at once if it cannot be met, and never late.
//!
//! The rules are those of the specification: the way to the store and back counts, a round trip that used everything
//! up is a refusal, and so is a timer that fires too late. A refusal charges nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use support::{Watched, limiter, limiter_on, millis, settle_down};
use tokio::time::{Instant, advance, sleep};
use tollgate::{AcquireError, Limiter, Micros, Quota, Rule, Store};

fn per_second(limit: u64) -> Rule {
    Rule::token_bucket("second", Quota::per_second(limit))
}

#[track_caller]
fn retry_after<T: std::fmt::Debug>(refused: Result<T, AcquireError>) -> Micros {
    match refused {
        Err(AcquireError::TooLong { retry_after }) => retry_after,
        other => panic!("expected a wait too long, found {other:?}"),
    }
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("partner").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_met_fails_at_once_and_charges_nothing() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner", 1).await.unwrap();
    let began = Instant::now();
    let refused = limiter.acquire_timeout("partner", 1, millis(999)).await;
    assert_eq!(retry_after(refused), Micros::from_millis(1_000));
    assert_eq!(began.elapsed(), millis(0));

    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_just_be_met_is_met() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner", 1).await.unwrap();
    let acquired = limiter.acquire_timeout("partner", 1, millis(1_000)).await.unwrap();
    assert_eq!(acquired.waited, millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_is_a_try() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire_timeout("partner", 1, Duration::ZERO).await.unwrap();
    let refused = limiter.acquire_timeout("partner", 1, Duration::ZERO).await;
    assert_eq!(retry_after(refused), Micros::SECOND);
}

/// The refused ones have not lengthened the line for those who have more patience.
#[tokio::test(start_paused = true)]
async fn the_impatient_do_not_hold_up_the_patient() {
    let limiter = limiter([per_second(10)]);
    limiter.acquire("partner", 10).await.unwrap();
    for _ in 0..100 {
        assert!(limiter.acquire_timeout("partner", 5, millis(499)).await.is_err());
    }
    assert_eq!(limiter.acquire_timeout("partner", 5, millis(500)).await.unwrap().waited, millis(500));
}

#[tokio::test(start_paused = true)]
async fn the_way_to_the_store_counts() {
    // 300 ms there and 300 ms back, and one second to wait once the question has arrived.
    let store = Watched::slow(millis(300), millis(300));
    let limiter = limiter_on(store, [per_second(1)]);
    limiter.acquire("partner", 1).await.unwrap();
    sleep(millis(10_000)).await;

    limiter.acquire("partner", 1).await.unwrap();
    let began = Instant::now();
    // Asked at 0, heard of at 300, free 400 ms later: out of reach of 600.
    assert!(limiter.acquire_timeout("partner", 1, millis(600)).await.is_err());
    assert!(began.elapsed() <= millis(600), "{:?}", began.elapsed());
}

/// Granted in time, but the answer came when the time was up: given back, and refused.
#[tokio::test(start_paused = true)]
async fn a_round_trip_that_used_it_all_up_is_a_refusal() {
    for (there, back) in [(0, 700), (350, 350), (700, 0), (250, 250)] {
        let limiter = limiter_on(Watched::slow(millis(there), millis(back)), [per_second(5)]);
        let began = Instant::now();
        let refused = limiter.acquire_timeout("partner", 1, millis(500)).await;
        assert!(refused.is_err(), "{there} ms there and {back} ms back: {refused:?}");
        assert!(began.elapsed() <= millis(there + back), "the answer is told when it comes");
        sleep(millis(1)).await;
        // Far less than a permit can have come back by itself.
        assert_eq!(remaining(&limiter).await, 5, "{there} ms there and {back} ms back: nothing is charged");
    }
}

/// The same where there is a wait to sleep: booked, then too late to be slept, so given back.
#[tokio::test(start_paused = true)]
async fn a_wait_that_no_longer_fits_is_given_back() {
    let limiter =
        limiter_on(Watched::slow(millis(0), millis(400)), [Rule::token_bucket("minute", Quota::per_minute(1))]);
    limiter.acquire("partner", 1).await.unwrap();
    // 400 ms have passed when this is asked, so it is booked for 59.6 s on; 400 ms later that is over the time.
    let refused = limiter.acquire_timeout("partner", 1, millis(59_700)).await;
    assert!(refused.is_err(), "{refused:?}");
    sleep(millis(60_000)).await;
    assert_eq!(remaining(&limiter).await, 1, "nobody else was there, so the permit went back");
}

#[tokio::test(start_paused = true)]
async fn the_total_never_exceeds_the_time_allowed() {
    let limiter = limiter_on(Watched::slow(millis(7), millis(13)), [Rule::sliding_log("second", Quota::per_second(5))]);
    let mut tasks = tokio::task::JoinSet::new();
    for waiter in 0..200_u64 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            sleep(millis(waiter * 37)).await;
            let (timeout, began) = (millis(1 + waiter * 29 % 1_500), Instant::now());
            let outcome = limiter.acquire_timeout("partner", 1 + waiter % 3, timeout).await;
            let took = began.elapsed();
            if outcome.is_ok() {
                assert!(took <= timeout, "{took:?} of {timeout:?}");
            } else {
                assert!(took <= timeout.max(millis(20)), "a refusal is told as soon as it is known: {took:?}");
            }
            outcome.is_ok()
        });
    }
    let granted = tasks.join_all().await.into_iter().filter(|granted| *granted).count();
    assert!((20..150).contains(&granted), "{granted} were granted");
}

/// The runtime was busy elsewhere: the turn came in time, the sleeper woke too late.
#[tokio::test(start_paused = true)]
async fn a_timer_that_fires_late_counts_too() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner", 1).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire_timeout("partner", 1, millis(1_200)).await }
    });
    settle_down().await;
    advance(millis(1_700)).await;
    let refused = waiter.await.unwrap();
    let Err(AcquireError::Late { late_by }) = refused else { panic!("{refused:?}") };
    assert_eq!(late_by, Micros::from_millis(500));
    assert_eq!(remaining(&limiter).await, 1, "it was given back");
}

#[tokio::test(start_paused = true)]
async fn a_late_timer_within_the_time_allowed_is_fine() {
    let limiter = limiter([per_second(1)]);
    limiter.acquire("partner", 1).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire_timeout("partner", 1, millis(2_000)).await }
    });
    settle_down().await;
    advance(millis(1_700)).await;
    assert_eq!(waiter.await.unwrap().unwrap().waited, millis(1_700));
}

/// A deadline covers the delay that a shaped rule tells to those it admits.
#[tokio::test(start_paused = true)]
async fn a_deadline_covers_the_delay_of_a_shaped_rule() {
    let limiter = limiter([Rule::leaky_bucket("even", Quota::per_second(10)).shaped()]);
    for turn in 0..5_u64 {
        // Booked for 0, 100, 200, 300 and 400 ms.
        let booked = limiter.reserve_within("partner", 1, millis(60_000)).await.unwrap();
        assert_eq!(booked.wait(), Micros::from_millis(100 * turn));
    }
    let refused = limiter.acquire_timeout("partner", 1, millis(499)).await;
    assert_eq!(retry_after(refused), Micros::from_millis(500));
    assert_eq!(limiter.acquire_timeout("partner", 1, millis(500)).await.unwrap().waited, millis(500));
}

#[tokio::test(start_paused = true)]
async fn never_is_told_whatever_the_time_allowed() {
    let limiter = limiter([per_second(5)]);
    for timeout in [Duration::ZERO, millis(10), Duration::MAX] {
        let refused = limiter.acquire_timeout("partner", 6, timeout).await;
        assert!(matches!(refused, Err(AcquireError::Never { cost: 6, limit: 5 })), "{refused:?}");
    }
    assert_eq!(remaining(&limiter).await, 5);
}
