//! Waiting for permits: timeouts, wake-ups, cancellation.

use std::time::{Duration, Instant};

use ratekeeper_testkit::servers::{FaultProxy, wait_until};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Ground, client, config, free, overall, takes};

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(20);

/// A refusal takes the whole timeout, as with Redisson, and not longer.
///
/// The upper bound is relative: a control timer of the same task ends 20 ms after the limiter's. However late both fire on
/// a busy machine, the limiter is polled first, so the control timer wins only if the limiter waits for something else.
#[tokio::test]
async fn a_timeout_is_used_up_and_kept() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 60_000)).await;
    assert!(takes(&limiter, 1).await);
    let started = Instant::now();
    let outcome = tokio::select! {
        biased;
        outcome = limiter.try_acquire_timeout(1, 300 * MS) => outcome.unwrap(),
        () = async { sleep(320 * MS).await } => panic!("the timeout was exceeded: {:?}", started.elapsed()),
    };
    let waited = started.elapsed();
    assert!(!outcome.is_granted() && waited >= 300 * MS, "{waited:?}");
}

/// The server's wait exceeds the timeout, yet a last attempt is made: another process may have released permits.
///
/// The last attempt is made some 10 ms before the end, so a timer that fires later than that misses it. On a busy machine
/// single rounds may fail; without a last attempt all of them would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_attempt_finds_permits_released_elsewhere() {
    let ground = Ground::in_real_time().await;
    for round in 0..20 {
        let name = format!("api {round}");
        let limiter = ground.limiter(&name, overall(1, 60_000)).await;
        let elsewhere = ground.another().await.rate_limiter(&name);
        assert!(takes(&limiter, 1).await);
        let waiting = tokio::spawn(async move { limiter.try_acquire_timeout(1, 800 * MS).await });
        sleep(100 * MS).await;
        elsewhere.release(1).await.unwrap();
        if waiting.await.unwrap().unwrap().is_granted() {
            return;
        }
    }
    panic!("no last attempt was granted");
}

/// A release in this process wakes its waiters at once, not after the wait of a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_the_waiters_of_this_process() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 60_000)).await;
    assert!(takes(&limiter, 1).await);
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await }
    });
    sleep(100 * MS).await;
    limiter.release(1).await.unwrap();
    timeout(TIMEOUT, waiting).await.expect("woken long before the minute is over").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_waiter_takes_nothing() {
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

/// The caller is dropped after the server's grant and before the reply: exactly that grant is returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_attempt_returns_its_grant() {
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
    wait_until("the server to grant", TIMEOUT, || ground.books("api") == (5, 5));
    attempt.abort();
    wait_until("the permits to be back", TIMEOUT, || ground.books("api") == (8, 2));
    assert_eq!(ground.grants("{api}:permits"), kept, "that grant and no other");
}

/// The reply arrives after the timeout: the outcome is a refusal at the timeout, and the permits are returned. The upper
/// bound is a control timer, as above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_after_the_timeout_is_a_refusal() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let limiter = client(&proxy.url(), config()).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(10, 60_000)).await.unwrap());
    assert!(takes(&limiter, 2).await);
    proxy.delay_replies(800 * MS);
    let outcome = tokio::select! {
        biased;
        outcome = limiter.try_acquire_timeout(3, 200 * MS) => outcome.unwrap(),
        () = async { sleep(400 * MS).await } => panic!("the timeout was exceeded"),
    };
    assert!(!outcome.is_granted());
    wait_until("the permits to be back", TIMEOUT, || ground.books("api") == (8, 2));
}

/// Twenty waiters share one permit per 50 ms: each is granted one, and none earlier than the rate allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_waiter_is_granted_in_turn() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(1, 50)).await;
    let started = Instant::now();
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let limiter = limiter.clone();
        waiting.spawn(async move { limiter.acquire(1).await.unwrap() });
    }
    timeout(TIMEOUT, waiting.join_all()).await.expect("twenty grants take about a second");
    let took = started.elapsed();
    assert!(took >= 940 * MS, "{took:?}");
}
