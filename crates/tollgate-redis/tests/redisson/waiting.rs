//! Waiting: no longer than told, in line, and leaving nothing behind.

use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::sleep};
use tollgate_testkit::servers::{FaultProxy, wait_until};

use crate::{Ground, client, config, free, overall, takes};

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// As with Redisson the whole time passes, and it is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_is_used_up_and_kept() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 60_000)).await;
    assert!(takes(&limiter, 1).await);
    let started = Instant::now();
    assert!(!limiter.try_acquire_timeout(1, 300 * MS).await.unwrap().is_granted());
    let waited = started.elapsed();
    assert!(waited >= 300 * MS, "{waited:?}");
}

/// The wait told would be too long, yet a last attempt is made: another process may have given something back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_attempt_finds_what_others_gave_back() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 60_000)).await;
    let elsewhere = ground.another().await.rate_limiter("api");
    assert!(takes(&limiter, 1).await);
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.try_acquire_timeout(1, 2_000 * MS).await }
    });
    sleep(100 * MS).await;
    elsewhere.release(1).await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_granted());
}

/// Whoever waits here hears at once of what is given back here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_those_who_wait() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 60_000)).await;
    assert!(takes(&limiter, 1).await);
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await }
    });
    sleep(100 * MS).await;
    let started = Instant::now();
    limiter.release(1).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_gone_takes_nothing() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 300)).await;
    assert!(takes(&limiter, 1).await);
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        let limiter = limiter.clone();
        waiting.spawn(async move { limiter.acquire(1).await });
    }
    sleep(100 * MS).await;
    waiting.shutdown().await;
    sleep(300 * MS).await;
    assert_eq!(free(&limiter).await, 1);
}

/// The server has granted, and the answer is on its way to somebody who has left: it is taken back, to the permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_attempt_gives_back_what_it_took() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let limiter = client(&proxy.url(), config()).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(10, 60_000)).await.unwrap());
    assert!(takes(&limiter, 2).await);
    let kept = ground.grants("{api}:permits");

    proxy.delay_replies(400 * MS);
    let attempt = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(3).await }
    });
    wait_until("the server to grant", PATIENCE, || ground.books("api") == (5, 5));
    attempt.abort();
    wait_until("the permits to be back", PATIENCE, || ground.books("api") == (8, 2));
    assert_eq!(ground.grants("{api}:permits"), kept, "the very grant, and no other");
}

/// The answer comes after the time is up: that is a refusal, in time, and the permits come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_after_the_timeout_is_a_refusal() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let limiter = client(&proxy.url(), config()).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(10, 60_000)).await.unwrap());
    assert!(takes(&limiter, 2).await);
    proxy.delay_replies(800 * MS);
    let started = Instant::now();
    assert!(!limiter.try_acquire_timeout(3, 200 * MS).await.unwrap().is_granted());
    assert!(started.elapsed() < 600 * MS, "{:?}", started.elapsed());
    wait_until("the permits to be back", PATIENCE, || ground.books("api") == (8, 2));
}

/// Twenty wait for one permit in 50 ms; all get one, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_in_line_gets_a_turn() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 50)).await;
    let started = Instant::now();
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let limiter = limiter.clone();
        waiting.spawn(async move { limiter.acquire(1).await.unwrap() });
    }
    waiting.join_all().await;
    let took = started.elapsed();
    assert!((940 * MS..Duration::from_secs(8)).contains(&took), "{took:?}");
}
