//! Cancelled waiters: their permits are refunded if no reservation comes after them, and only then.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use ratekeeper::{Limiter, Quota, Rule, Store};
use support::{DelayedStore, limiter, limiter_on, millis, settle_down};
use tokio::time::{Instant, sleep, timeout};

/// A waiter whose permits are reserved and that sleeps.
type Waiter<'a> = Pin<Box<dyn Future<Output = Duration> + 'a>>;

/// Starts a waiter and polls it until it sleeps.
async fn start<S: Store>(limiter: &Limiter<S>, permits: u64) -> Waiter<'_> {
    let mut waiter: Waiter<'_> = Box::pin(async move { limiter.acquire(("partner", permits)).await.unwrap().waited });
    std::future::poll_fn(|context| {
        assert!(waiter.as_mut().poll(context).is_pending(), "the permits are not free yet");
        Poll::Ready(())
    })
    .await;
    waiter
}

async fn remaining<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("partner").await.unwrap().remaining()
}

/// The wait of the next request. The probe is cancelled, so it changes nothing.
async fn next_wait<S: Store>(limiter: &Limiter<S>) -> Duration {
    let reservation = limiter.reserve_within("partner", Duration::MAX).await.unwrap();
    let wait = reservation.wait();
    let _ = reservation.cancel().await.unwrap();
    wait
}

#[tokio::test(start_paused = true)]
async fn the_last_waiter_gives_its_permit_back() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner").await.unwrap();
    let (first, second) = (start(&limiter, 1).await, start(&limiter, 1).await);
    assert_eq!(next_wait(&limiter).await, millis(3_000));
    drop(second);
    assert_eq!(next_wait(&limiter).await, millis(2_000));
    drop(first);
    assert_eq!(next_wait(&limiter).await, millis(1_000));
}

/// Capacity 1, one a second, reservations for 1 s and 2 s. If the first is cancelled, a new request must not pass at 2 s
/// together with the second.
#[tokio::test(start_paused = true)]
async fn a_reservation_after_the_cancelled_one_keeps_its_time() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(1))]);
    limiter.acquire("partner").await.unwrap();
    let (first, second) = (start(&limiter, 1).await, start(&limiter, 1).await);
    drop(first);
    let next = start(&limiter, 1).await;
    assert_eq!(second.await, millis(2_000));
    assert_eq!(next.await, millis(3_000));
}

/// A log stores the time of every reservation, so one in the middle is refunded too; the others keep their times.
#[tokio::test(start_paused = true)]
async fn a_log_gives_back_from_the_middle_and_keeps_the_other_times() {
    let limiter = limiter([Rule::sliding_log("second", Quota::per_second(2))]);
    limiter.acquire(("partner", 2)).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..4 {
        waiters.push(start(&limiter, 1).await);
    }
    drop(waiters.remove(1));
    let waits = [waiters.remove(0).await, waiters.remove(0).await, waiters.remove(0).await];
    assert_eq!(waits, [millis(1_000), millis(2_000), millis(2_000)]);
    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_returned_stays_charged() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(2))]);
    limiter.acquire(("partner", 2)).await.unwrap();
    drop(limiter.acquire("partner").await.unwrap());
    assert_eq!(remaining(&limiter).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_charges_nothing() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(2))]);
    drop(limiter.acquire(("partner", 2)));
    assert_eq!(remaining(&limiter).await, 2);
}

/// A reservation is identified by a time of the store's clock, so it is found and refunded whatever the reply's delay.
#[tokio::test(start_paused = true)]
async fn a_slow_reply_does_not_prevent_a_refund() {
    for rule in [
        Rule::sliding_log("second", Quota::per_minute(1)),
        Rule::token_bucket("second", Quota::per_minute(1)),
        Rule::fixed_window_aligned("second", Quota::per_minute(1), ratekeeper::Align::FirstRequest),
    ] {
        let limiter = limiter_on(DelayedStore::slow(millis(5), millis(20)), [rule.clone()]);
        limiter.acquire("partner").await.unwrap();
        let began = Instant::now();
        assert!(timeout(millis(500), limiter.acquire("partner")).await.is_err());
        sleep(millis(60_000) - began.elapsed()).await;
        assert_eq!(remaining(&limiter).await, 1, "{rule:?}");
    }
}

/// Nor does a slow reply make a reservation with others after it look like the last.
#[tokio::test(start_paused = true)]
async fn a_slow_reply_does_not_move_other_reservations() {
    for rule in [Rule::token_bucket("second", Quota::per_second(1)), Rule::fixed_window("second", Quota::per_second(1))]
    {
        // The reply takes longer than the time between two reservations.
        let limiter = limiter_on(DelayedStore::slow(millis(0), millis(1_500)), [rule.clone()]);
        let takes: Vec<_> = (0..5)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire("partner").await })
            })
            .collect();
        // Reserved for 0, 1, 2, 3 and 4 s, observed at 1.5 s. The fourth is cancelled at once.
        sleep(millis(1_600)).await;
        takes[3].abort();
        settle_down().await;
        let next = limiter.reserve_within("partner", Duration::MAX).await.unwrap();
        // Asked at 1.6 s. Five reservations lead up to 4 s, so 5 s is the first free time.
        assert_eq!(next.wait(), millis(3_400), "{rule:?}");
    }
}

/// Ten thousand waiters, one at a time, cancelled at random times: each refund is exactly what was taken.
#[tokio::test(start_paused = true)]
async fn cancelled_waiters_give_back_exactly_their_permits() {
    for rule in [
        Rule::token_bucket("all", Quota::per_day(1_000)),
        Rule::sliding_log("all", Quota::per_day(1_000)),
        Rule::sliding_counter("all", Quota::per_day(1_000)),
        Rule::token_bucket_stepwise("all", Quota::per_day(1_000)),
        Rule::fixed_window_aligned("all", Quota::per_day(1_000), ratekeeper::Align::FirstRequest),
    ] {
        let limiter = limiter([rule.clone()]);
        limiter.acquire(("partner", 1_000)).await.unwrap();
        let began = Instant::now();
        let mut random = 7_u64;
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (stays, permits) = (millis(random >> 33 & 7), 1 + (random >> 40) % 1_000);
            // Too short for any of them: 10 000 times at most 7 ms are less than the refill of one permit takes.
            assert!(timeout(stays, limiter.acquire(("partner", permits))).await.is_err());
        }
        assert_eq!(remaining(&limiter).await, 0, "{rule:?}");
        sleep(millis(86_400_000) - began.elapsed()).await;
        // The counter keeps a slice for up to a slice longer than its window.
        if matches!(rule.algorithm(), ratekeeper::AlgorithmSpec::SlidingCounter { .. }) {
            sleep(millis(8_640_000)).await;
        }
        assert_eq!(remaining(&limiter).await, 1_000, "{rule:?}: all permits are back after a day");
    }
}

/// Ten thousand requests within twenty seconds. Each has a timeout, and every other one is cancelled at half of it.
/// Returns the times of the grants.
async fn crowd(limiter: &Limiter<support::TestStore>) -> Vec<Duration> {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for waiter in 0..10_000_u64 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            sleep(millis(waiter * 7 % 20_011)).await;
            let allowed = millis(waiter.wrapping_mul(0x9E37_79B9) % 800);
            let stays = if waiter % 2 == 0 { allowed } else { allowed / 2 };
            let acquired = timeout(stays, limiter.acquire_within("partner", allowed)).await;
            matches!(acquired, Ok(Ok(_))).then(|| began.elapsed())
        });
    }
    let mut granted: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    granted.sort_unstable();
    granted
}

/// No second has more than `most` grants.
#[track_caller]
fn assert_at_most(most: usize, granted: &[Duration]) {
    for (index, time) in granted.iter().enumerate() {
        if let Some(one_more) = granted.get(index + most) {
            assert!(*one_more - *time >= millis(1_000), "{} grants within a second from {time:?}", most + 1);
        }
    }
}

/// A log refunds exactly: in the end all permits are free.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_cancelled_waiters_leaves_nothing_charged() {
    let limiter = limiter([Rule::sliding_log("second", Quota::per_second(20))]);
    let granted = crowd(&limiter).await;
    assert!(granted.len() > 200, "{} granted", granted.len());
    assert_at_most(20, &granted);
    sleep(millis(1_000)).await;
    assert_eq!(remaining(&limiter).await, 20);
}

/// Under a bucket, a reservation cancelled in the middle counts as spent: fewer grants, but never more.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_cancelled_waiters_never_exceeds_the_limit() {
    let limiter = limiter([Rule::token_bucket("second", Quota::per_second(20).burst(5))]);
    let granted = crowd(&limiter).await;
    assert!(granted.len() > 100, "{} granted", granted.len());
    // The burst and a second's refill.
    assert_at_most(5 + 20, &granted);
    sleep(millis(2_000)).await;
    assert_eq!(remaining(&limiter).await, 5);
}
