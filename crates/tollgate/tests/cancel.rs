//! Waiters that go away: what they had booked goes back where nobody stands behind it, and nowhere else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use support::{Watched, limiter, limiter_on, millis, settle_down};
use tokio::time::{Instant, sleep, timeout};
use tollgate::{Limiter, Quota, Rule, Store};

/// A waiter that has asked and sleeps.
type Waiter<'a> = Pin<Box<dyn Future<Output = Duration> + 'a>>;

/// Asks, and goes to sleep if it has to.
async fn start<S: Store>(limiter: &Limiter<S>, permits: u64) -> Waiter<'_> {
    let mut waiter: Waiter<'_> = Box::pin(async move { limiter.acquire("partner", permits).await.unwrap().waited });
    std::future::poll_fn(|context| {
        assert!(waiter.as_mut().poll(context).is_pending(), "it has to wait");
        Poll::Ready(())
    })
    .await;
    waiter
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("partner").await.unwrap().remaining()
}

/// How long a newcomer would have to wait; asked without leaving a trace.
async fn next_wait<S: Store>(limiter: &Limiter<S>) -> Duration {
    let reservation = limiter.reserve_within("partner", 1, Duration::MAX).await.unwrap();
    let wait = reservation.wait();
    let _ = reservation.cancel().await.unwrap();
    wait.into()
}

#[tokio::test(start_paused = true)]
async fn the_last_in_line_gives_its_permit_back() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner", 1).await.unwrap();
    let (first, second) = (start(&limiter, 1).await, start(&limiter, 1).await);
    assert_eq!(next_wait(&limiter).await, millis(3_000));
    drop(second);
    assert_eq!(next_wait(&limiter).await, millis(2_000));
    drop(first);
    assert_eq!(next_wait(&limiter).await, millis(1_000));
}

/// The example of the design: capacity 1, one a second, promises for 1 s and 2 s. If the first goes away, a newcomer
/// must not be let in at 2 s beside the second.
#[tokio::test(start_paused = true)]
async fn a_promise_behind_the_dropped_one_is_kept() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner", 1).await.unwrap();
    let (first, second) = (start(&limiter, 1).await, start(&limiter, 1).await);
    drop(first);
    let newcomer = start(&limiter, 1).await;
    assert_eq!(second.await, millis(2_000));
    assert_eq!(newcomer.await, millis(3_000));
}

/// The log knows every moment, so it gives back from the middle as well; those who wait keep their moments.
#[tokio::test(start_paused = true)]
async fn a_log_gives_back_from_the_middle_and_keeps_the_promises() {
    let limiter = limiter([Rule::sliding_log("second", Quota::per_second(2))]);
    limiter.acquire("partner", 2).await.unwrap();
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(start(&limiter, 1).await);
    }
    drop(line.remove(1));
    let waits = [line.remove(0).await, line.remove(0).await, line.remove(0).await];
    assert_eq!(waits, [millis(1_000), millis(2_000), millis(2_000)]);
    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_delivered_stays_charged() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(2))]);
    limiter.acquire("partner", 2).await.unwrap();
    drop(limiter.acquire("partner", 1).await.unwrap());
    assert_eq!(remaining(&limiter).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_charged_nothing() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(2))]);
    drop(limiter.acquire("partner", 2));
    assert_eq!(remaining(&limiter).await, 2);
}

/// The store answers after a while. What was booked is still the moment by the store's clock, so it can be found and
/// given back, however long the answer was on its way.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_keep_a_permit_from_going_back() {
    for rule in [
        Rule::sliding_log("second", Quota::per_minute(1)),
        Rule::token_bucket("second", Quota::per_minute(1)),
        Rule::fixed_window("second", Quota::per_minute(1)).align(tollgate::Align::FirstRequest),
    ] {
        let limiter = limiter_on(Watched::slow(millis(5), millis(20)), [rule.clone()]);
        limiter.acquire("partner", 1).await.unwrap();
        let began = Instant::now();
        assert!(timeout(millis(500), limiter.acquire("partner", 1)).await.is_err());
        sleep(millis(60_000) - began.elapsed()).await;
        assert_eq!(remaining(&limiter).await, 1, "{rule:?}");
    }
}

/// And it does not make one who has others behind him look like the last.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_break_a_promise() {
    for rule in [Rule::token_bucket("second", Quota::per_second(1)), Rule::fixed_window("second", Quota::per_second(1))]
    {
        // The answer takes longer than the waiters stand apart.
        let limiter = limiter_on(Watched::slow(millis(0), millis(1_500)), [rule.clone()]);
        let takes: Vec<_> = (0..5)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire("partner", 1).await })
            })
            .collect();
        // Booked for 0, 1, 2, 3 and 4 s, and told at 1.5 s. The fourth goes away at once.
        sleep(millis(1_600)).await;
        takes[3].abort();
        settle_down().await;
        let newcomer = limiter.reserve_within("partner", 1, Duration::MAX).await.unwrap();
        // Asked at 1.6 s; five have been promised moments up to 4 s, so 5 s is the first that is free.
        assert_eq!(Duration::from(newcomer.wait()), millis(3_400), "{rule:?}");
    }
}

/// Ten thousand waiters that lose patience at any moment: alone in line, each gives back exactly what it took.
#[tokio::test(start_paused = true)]
async fn permits_in_are_permits_out_ten_thousand_times() {
    for rule in [
        Rule::token_bucket("all", Quota::per_day(1_000)),
        Rule::sliding_log("all", Quota::per_day(1_000)),
        Rule::sliding_counter("all", Quota::per_day(1_000)),
        Rule::token_bucket("all", Quota::per_day(1_000)).stepwise(),
        Rule::fixed_window("all", Quota::per_day(1_000)).align(tollgate::Align::FirstRequest),
    ] {
        let limiter = limiter([rule.clone()]);
        limiter.acquire("partner", 1_000).await.unwrap();
        let began = Instant::now();
        let mut random = 7_u64;
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (patience, permits) = (millis(random >> 33 & 7), 1 + (random >> 40) % 1_000);
            // Too short for any of them: 10 000 times at most 7 ms are less than a permit takes to come back.
            assert!(timeout(patience, limiter.acquire("partner", permits)).await.is_err());
        }
        assert_eq!(remaining(&limiter).await, 0, "{rule:?}");
        sleep(millis(86_400_000) - began.elapsed()).await;
        // The counter keeps a slice for up to a slice longer than its window.
        if matches!(rule.algorithm(), tollgate::Algorithm::SlidingCounter { .. }) {
            sleep(millis(8_640_000)).await;
        }
        assert_eq!(remaining(&limiter).await, 1_000, "{rule:?}: a day later everything is back");
    }
}

/// Ten thousand come within twenty seconds. Nobody waits longer than he has patience for, and every other one loses it
/// half-way. Says when those went who did.
async fn crowd(limiter: &Limiter<support::TestStore>) -> Vec<Duration> {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for waiter in 0..10_000_u64 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            sleep(millis(waiter * 7 % 20_011)).await;
            let patience = millis(waiter.wrapping_mul(0x9E37_79B9) % 800);
            let stays = if waiter % 2 == 0 { patience } else { patience / 2 };
            let acquired = timeout(stays, limiter.acquire_timeout("partner", 1, patience)).await;
            matches!(acquired, Ok(Ok(_))).then(|| began.elapsed())
        });
    }
    let mut gone: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    gone.sort_unstable();
    gone
}

fn never_more_than(most: usize, gone: &[Duration]) {
    for (index, moment) in gone.iter().enumerate() {
        if let Some(one_more) = gone.get(index + most) {
            assert!(*one_more - *moment >= millis(1_000), "{} went within a second from {moment:?}", most + 1);
        }
    }
}

/// The log gives back exactly: in the end all permits are there.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_loses_patience_leaves_nothing_behind() {
    let limiter = limiter([Rule::sliding_log("second", Quota::per_second(20))]);
    let gone = crowd(&limiter).await;
    assert!(gone.len() > 200, "{} went", gone.len());
    never_more_than(20, &gone);
    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 20);
}

/// Under a bucket, what is dropped in the middle counts as spent, so fewer go, but never more.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_loses_patience_breaks_no_promise() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(20).burst(5))]);
    let gone = crowd(&limiter).await;
    assert!(gone.len() > 100, "{} went", gone.len());
    // A burst, and what drips in within the second.
    never_more_than(5 + 20, &gone);
    sleep(millis(2_000)).await;
    assert_eq!(remaining(&limiter).await, 5);
}
