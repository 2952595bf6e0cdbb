//! Waiting for a turn: in order, at the right moment, with one call to the store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::sync::{Arc, Mutex};

use support::{Watched, limiter, limiter_on, millis};
use tokio::{task::JoinSet, time::Instant};
use tollgate::{AcquireError, Limiter, Micros, Quota, Rule, Store};

/// Starts so many waiters in order and notes who went when, in milliseconds since now.
async fn departures<S: Store + 'static>(limiter: &Limiter<S>, waiters: u64, permits: u64) -> Vec<(u64, u128)> {
    let gone = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, began) = (JoinSet::new(), Instant::now());
    for waiter in 0..waiters {
        let (limiter, gone) = (limiter.clone(), Arc::clone(&gone));
        tasks.spawn(async move {
            let acquired = limiter.acquire("partner", permits).await.unwrap();
            assert_eq!(acquired.waited, began.elapsed());
            gone.lock().unwrap().push((waiter, began.elapsed().as_millis()));
        });
    }
    tasks.join_all().await;
    Arc::try_unwrap(gone).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_arrival_order_each_at_its_moment() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(5).burst(1))]);
    let gone = departures(&limiter, 20, 1).await;
    let expected: Vec<_> = (0..20).map(|waiter| (waiter, u128::from(waiter) * 200)).collect();
    assert_eq!(gone, expected);
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_at_once_and_the_rest_in_turn() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(10).burst(3))]);
    let moments: Vec<_> = departures(&limiter, 8, 1).await.into_iter().map(|(_, moment)| moment).collect();
    assert_eq!(moments, [0, 0, 0, 100, 200, 300, 400, 500]);
}

#[tokio::test(start_paused = true)]
async fn a_grant_costs_one_call_however_long_it_waits() {
    let store = Watched::new();
    let limiter = limiter_on(store.clone(), [Rule::token_bucket("minute", Quota::per_minute(1))]);
    departures(&limiter, 50, 1).await;
    assert_eq!(store.calls(), 50);
}

/// Whatever the algorithm, nobody sees more than the limit in any window.
#[tokio::test(start_paused = true)]
async fn the_limit_holds_in_every_window() {
    let rules = [
        (Rule::sliding_log("log", Quota::per_second(7)), 7),
        (Rule::sliding_counter("counter", Quota::per_second(7)), 7),
        // A bucket may let its burst and a second's refill into one second, a window two windows' worth.
        (Rule::token_bucket("bucket", Quota::per_second(7).burst(3)), 10),
        (Rule::fixed_window("window", Quota::per_second(7)), 14),
    ];
    for (rule, most) in rules {
        let limiter = limiter([rule.clone()]);
        let gone = departures(&limiter, 60, 1).await;
        assert!(gone.iter().map(|(waiter, _)| *waiter).eq(0..60), "in order under {rule:?}: {gone:?}");
        for (_, moment) in &gone {
            let window = moment..&(moment + 1_000);
            let inside = gone.iter().filter(|(_, other)| window.contains(&other)).count();
            assert!(inside <= most, "{inside} within a second from {moment} ms under {rule:?}");
        }
        let last = gone[59].1;
        assert!(last <= 60 * 1_000 / 7 + 1_000, "nobody waits longer than needed: {last} ms under {rule:?}");
    }
}

/// Every rule has its say: the request goes when the slowest lets it.
#[tokio::test(start_paused = true)]
async fn several_rules_are_waited_for_together() {
    let limiter = limiter([
        Rule::token_bucket("second", Quota::per_second(2).burst(1)),
        Rule::sliding_log("minute", Quota::per_minute(3)),
    ]);
    let moments: Vec<_> = departures(&limiter, 5, 1).await.into_iter().map(|(_, moment)| moment).collect();
    assert_eq!(moments, [0, 500, 1_000, 60_000, 60_500]);
}

#[tokio::test(start_paused = true)]
async fn costs_are_waited_for_whole_and_never_overtaken() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(10))]);
    assert_eq!(limiter.acquire("partner", 8).await.unwrap().waited, millis(0));
    let began = Instant::now();
    let (large, small) = tokio::join!(limiter.acquire("partner", 9), limiter.acquire("partner", 1));
    assert_eq!(large.unwrap().waited, millis(700));
    assert_eq!(small.unwrap().waited, millis(800), "though one was free when it came");
    assert_eq!(began.elapsed(), millis(800));
}

/// Tokio's timers tick in milliseconds: one may wake a little late, but never before its moment.
#[tokio::test(start_paused = true)]
async fn nobody_wakes_before_the_moment() {
    let limiter = limiter([Rule::token_bucket("odd", Quota::per_second(3_000).burst(1))]);
    let began = Instant::now();
    for turn in 1..200_u32 {
        limiter.acquire("partner", 1).await.unwrap();
        let earliest = (turn - 1) * std::time::Duration::from_nanos(333_333);
        assert!(began.elapsed() >= earliest, "turn {turn} after {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_shaped_rule_is_waited_for() {
    let limiter = limiter([Rule::leaky_bucket("even", Quota::per_second(10)).shaped()]);
    let moments: Vec<_> = departures(&limiter, 6, 1).await.into_iter().map(|(_, moment)| moment).collect();
    assert_eq!(moments, [0, 100, 200, 300, 400, 500]);
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_is_never_and_told_at_once() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(5))]);
    let refused = limiter.acquire("partner", 6).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Never { cost: 6, limit: 5 }), "{refused}");
    assert_eq!(limiter.peek("partner").await.unwrap().remaining(), 5);
}

/// A wait beyond what can be promised is a refusal, not a sleep without an end.
#[tokio::test(start_paused = true)]
async fn a_wait_of_more_than_a_hundred_days_is_refused() {
    let limiter = limiter([Rule::fixed_window("month", Quota::per_week(1))]);
    let began = Instant::now();
    let mut granted = 0;
    let refused = loop {
        // Each stands behind the one before; none of them is dropped before the end.
        match limiter.reserve_within("partner", 1, std::time::Duration::MAX).await {
            Ok(reservation) => {
                assert!(reservation.wait() <= tollgate::bounds::MAX_WAIT);
                granted += 1;
            }
            Err(refused) => break refused,
        }
    };
    assert!((14..=16).contains(&granted), "{granted} weeks in a hundred days");
    let AcquireError::TooLong { retry_after } = refused else { panic!("{refused}") };
    assert!(retry_after > tollgate::bounds::MAX_WAIT);
    let refused = limiter.acquire("partner", 1).await.unwrap_err();
    assert!(matches!(refused, AcquireError::TooLong { .. }));
    assert_eq!(began.elapsed(), millis(0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_nothing() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner", 1).await.unwrap();
    assert_eq!(limiter.acquire("partner", 0).await.unwrap().waited, millis(0));
    assert_eq!(limiter.acquire_n("partner", 1).await.unwrap().waited, millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_blocked_key_waits_for_nobody() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    let _ = limiter.block("partner", millis(60_000)).await.unwrap();
    let refused = limiter.acquire("partner", 1).await.unwrap_err();
    assert!(matches!(refused, AcquireError::TooLong { retry_after } if retry_after == Micros::MINUTE), "{refused}");
}
