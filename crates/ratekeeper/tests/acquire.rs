//! `acquire`: waiters are served in order, at the right time, with one call to the store each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratekeeper::{AcquireError, Limiter, Quota, Rule, Store, bounds::MAX_WAIT};
use support::{DelayedStore, limiter, limiter_on, millis};
use tokio::{task::JoinSet, time::Instant};

/// Starts this many waiters in order. Returns each waiter's number and the time of its grant, in milliseconds from now.
async fn grants<S: Store + 'static>(limiter: &Limiter<S>, waiters: u64, permits: u64) -> Vec<(u64, u128)> {
    let granted = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, began) = (JoinSet::new(), Instant::now());
    for waiter in 0..waiters {
        let (limiter, granted) = (limiter.clone(), Arc::clone(&granted));
        tasks.spawn(async move {
            let acquired = limiter.acquire(("partner", permits)).await.unwrap();
            assert_eq!(acquired.waited, began.elapsed());
            granted.lock().unwrap().push((waiter, began.elapsed().as_millis()));
        });
    }
    tasks.join_all().await;
    Arc::try_unwrap(granted).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_arrival_order_each_at_its_time() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(5).burst(1))]);
    let granted = grants(&limiter, 20, 1).await;
    let expected: Vec<_> = (0..20).map(|waiter| (waiter, u128::from(waiter) * 200)).collect();
    assert_eq!(granted, expected);
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_granted_at_once_and_the_rest_at_the_rate() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(10).burst(3))]);
    let times: Vec<_> = grants(&limiter, 8, 1).await.into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [0, 0, 0, 100, 200, 300, 400, 500]);
}

#[tokio::test(start_paused = true)]
async fn a_grant_costs_one_call_whatever_the_wait() {
    let store = DelayedStore::new();
    let limiter = limiter_on(store.clone(), [Rule::token_bucket("minute", Quota::per_minute(1))]);
    grants(&limiter, 50, 1).await;
    assert_eq!(store.calls(), 50);
}

/// No window admits more than the algorithm's bound.
#[tokio::test(start_paused = true)]
async fn the_limit_holds_in_every_window() {
    let rules = [
        (Rule::sliding_log("log", Quota::per_second(7)), 7),
        (Rule::sliding_counter("counter", Quota::per_second(7)), 7),
        // A bucket admits its burst and a second's refill in one second; a fixed window up to two windows around an edge.
        (Rule::token_bucket("bucket", Quota::per_second(7).burst(3)), 10),
        (Rule::fixed_window("window", Quota::per_second(7)), 14),
    ];
    for (rule, most) in rules {
        let limiter = limiter([rule.clone()]);
        let granted = grants(&limiter, 60, 1).await;
        assert!(granted.iter().map(|(waiter, _)| *waiter).eq(0..60), "in order under {rule:?}: {granted:?}");
        for (_, time) in &granted {
            let window = time..&(time + 1_000);
            let inside = granted.iter().filter(|(_, other)| window.contains(&other)).count();
            assert!(inside <= most, "{inside} within a second from {time} ms under {rule:?}");
        }
        let last = granted[59].1;
        assert!(last <= 60 * 1_000 / 7 + 1_000, "no longer than needed: {last} ms under {rule:?}");
    }
}

/// The request is granted when the slowest rule admits it.
#[tokio::test(start_paused = true)]
async fn several_rules_are_waited_for_together() {
    let limiter = limiter([
        Rule::token_bucket("second", Quota::per_second(2).burst(1)),
        Rule::sliding_log("minute", Quota::per_minute(3)),
    ]);
    let times: Vec<_> = grants(&limiter, 5, 1).await.into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [0, 500, 1_000, 60_000, 60_500]);
}

#[tokio::test(start_paused = true)]
async fn a_large_cost_is_granted_whole_and_not_overtaken() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(10))]);
    assert_eq!(limiter.acquire(("partner", 8)).await.unwrap().waited, millis(0));
    let began = Instant::now();
    let (large, small) = tokio::join!(limiter.acquire(("partner", 9)), limiter.acquire("partner"));
    assert_eq!(large.unwrap().waited, millis(700));
    assert_eq!(small.unwrap().waited, millis(800), "although one permit was free when it asked");
    assert_eq!(began.elapsed(), millis(800));
}

/// Tokio's timers tick in milliseconds: a task may wake a little late, but never early.
#[tokio::test(start_paused = true)]
async fn no_waiter_wakes_early() {
    let limiter = limiter([Rule::token_bucket("odd", Quota::per_second(3_000).burst(1))]);
    let began = Instant::now();
    for grant in 1..200_u32 {
        limiter.acquire("partner").await.unwrap();
        let earliest = (grant - 1) * Duration::from_nanos(333_333);
        assert!(began.elapsed() >= earliest, "grant {grant} after {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_shaped_rule_is_waited_for() {
    let limiter = limiter([Rule::leaky_bucket_shaped("even", Quota::per_second(10))]);
    let times: Vec<_> = grants(&limiter, 6, 1).await.into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [0, 100, 200, 300, 400, 500]);
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_fails_at_once() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(5))]);
    let denied = limiter.acquire(("partner", 6)).await.unwrap_err();
    assert!(matches!(denied, AcquireError::ExceedsLimit { cost: 6, limit: 5 }), "{denied}");
    assert_eq!(limiter.peek("partner").await.unwrap().remaining(), 5);
}

/// A wait beyond the bound is a denial, not an endless sleep.
#[tokio::test(start_paused = true)]
async fn a_wait_of_more_than_a_hundred_days_is_denied() {
    let limiter = limiter([Rule::fixed_window("month", Quota::per_week(1))]);
    let began = Instant::now();
    let mut granted = 0;
    let denied = loop {
        // Each is reserved after the one before. None is dropped before the end.
        match limiter.reserve_within("partner", Duration::MAX).await {
            Ok(reservation) => {
                assert!(reservation.wait() <= MAX_WAIT.into());
                granted += 1;
            }
            Err(denied) => break denied,
        }
    };
    assert!((14..=16).contains(&granted), "{granted} weeks in a hundred days");
    let AcquireError::Denied { retry_after } = denied else { panic!("{denied}") };
    assert!(retry_after > Duration::from(MAX_WAIT));
    let denied = limiter.acquire("partner").await.unwrap_err();
    assert!(matches!(denied, AcquireError::Denied { .. }));
    assert_eq!(began.elapsed(), millis(0));
}

#[tokio::test(start_paused = true)]
async fn a_cost_of_0_does_not_wait() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner").await.unwrap();
    assert_eq!(limiter.acquire(("partner", 0)).await.unwrap().waited, millis(0));
    assert_eq!(limiter.acquire("partner").await.unwrap().waited, millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_blocked_key_is_denied_at_once() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    let _ = limiter.block("partner", millis(60_000)).await.unwrap();
    let denied = limiter.acquire("partner").await.unwrap_err();
    assert!(matches!(denied, AcquireError::Denied { retry_after } if retry_after == millis(60_000)), "{denied}");
}
