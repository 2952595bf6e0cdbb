//! Ten defects of Redisson 4.7, and the behaviour of this client in each case; see `docs/redisson.md`.

use std::time::Duration;

use ratekeeper_compat::redisson::{AcquireOutcome, Lifetime, RedissonError, Taken};

use crate::{Ground, free, grant, overall, takes};

/// 1: in Java a command that is sent twice charges twice, permanently. Here the first request that the low value would
/// refuse corrects it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_too_low_heals() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    assert!(takes(&limiter, 2).await);
    let _ = ground.ask(&["DECRBY", "{test}:value", "1"]);
    assert!(takes(&limiter, 3).await);
    assert_eq!(ground.books("test"), (0, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_too_high_heals() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    assert!(takes(&limiter, 2).await);
    let _ = ground.ask(&["SET", "{test}:value", "9"]);
    assert!(!takes(&limiter, 4).await);
    assert_eq!(ground.books("test"), (3, 2));
}

/// Many grants of several permits are summed up only occasionally; it happens within a few windows' worth of calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_grants_heals_too() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(400, 60_000)).await;
    for _ in 0..200 {
        assert!(takes(&limiter, 2).await);
    }
    let _ = ground.ask(&["DECRBY", "{test}:value", "7"]);
    for _ in 0..200 {
        assert!(!takes(&limiter, 1).await);
        if ground.books("test") == (0, 400) {
            return;
        }
    }
    panic!("still {:?}", ground.books("test"));
}

/// 2: in Java a query of the free permits removes the value's time to live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_what_is_free_keeps_the_time_to_live() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    assert!(limiter.expire(Duration::from_secs(60)).await.unwrap());
    assert_eq!(free(&limiter).await, 5);
    assert!((1..=60_000).contains(&ground.pttl("{test}:value")), "a new value lives as long as its config");
    assert!(takes(&limiter, 2).await);
    ground.pass(1_000);
    assert_eq!(free(&limiter).await, 5);
    assert!((1..=60_000).contains(&ground.pttl("{test}:value")), "and keeps its time to live");
}

/// 3: in Java a low value without grants is a permanent script error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_low_value_without_grants_is_a_full_limiter() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    let _ = ground.ask(&["SET", "{test}:value", "0"]);
    assert!(takes(&limiter, 4).await);
    assert_eq!(ground.books("test"), (1, 4));
}

/// 4: in Java released permits are freed once more when their grant lapses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_permits_come_back_once() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    assert!(takes(&limiter, 5).await);
    limiter.release(3).await.unwrap();
    assert_eq!(ground.books("test"), (8, 2));
    ground.pass(1_000);
    assert_eq!(free(&limiter).await, 10);

    // A release by Java up to 4.7: it raises the value only.
    assert!(takes(&limiter, 5).await);
    let _ = ground.ask(&["INCRBY", "{test}:value", "3"]);
    ground.pass(1_000);
    assert!(takes(&limiter, 10).await);
    assert!(!takes(&limiter, 1).await);
}

/// 4, by Java up to 4.7: the release counts, and the grants that it left are removed, oldest first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_value_alone_is_seen_and_finished() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    for permits in [2, 4, 4] {
        assert!(takes(&limiter, permits).await);
        ground.pass(100);
    }
    let _ = ground.ask(&["INCRBY", "{test}:value", "3"]);
    assert_eq!(free(&limiter).await, 3);
    assert_eq!(ground.books("test"), (3, 7), "two of the first grant, one of the second");
    assert!(takes(&limiter, 3).await);
    assert!(!takes(&limiter, 1).await);

    // A release that is not noticed before the released grants lapse frees nothing twice either.
    let _ = ground.ask(&["INCRBY", "{test}:value", "2"]);
    assert!(takes(&limiter, 2).await);
    ground.pass(800);
    assert!(!takes(&limiter, 2).await, "of the second grant's three, two came back before");
    assert!(takes(&limiter, 1).await);
    assert_eq!(ground.books("test"), (0, 10));
}

/// The same if every grant is of one permit. A call that finds free permits takes one without counting the grants. The
/// next call that finds none, or that queries the free permits, corrects them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_single_permits_is_seen_and_finished() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    for _ in 0..5 {
        assert!(takes(&limiter, 1).await);
        ground.pass(1);
    }
    let before = ground.grants("{test}:permits");
    let _ = ground.ask(&["INCRBY", "{test}:value", "2"]);
    assert!(takes(&limiter, 1).await);
    assert!(takes(&limiter, 1).await);
    assert!(!takes(&limiter, 1).await);
    assert_eq!(ground.books("test"), (0, 5));
    assert_eq!(ground.grants("{test}:permits")[..3], before[2..], "the oldest two are removed");

    // Nothing is freed twice at the time at which they would have lapsed either.
    let _ = ground.ask(&["INCRBY", "{test}:value", "1"]);
    assert!(takes(&limiter, 1).await);
    ground.pass(999);
    assert_eq!(free(&limiter).await, 2, "the three oldest have expired, and one of them was returned before");
    assert_eq!(ground.books("test"), (2, 3));
}

/// 5: in Java the state kept under a lower rate does not record the excess.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_rate_remembers_what_is_over() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    assert!(takes(&limiter, 4).await);
    ground.pass(300);
    assert!(takes(&limiter, 4).await);
    assert!(limiter.update_rate(&overall(5, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(ground.books("test"), (0, 5), "Redisson shows the value as it is");
    assert_eq!(free(&limiter).await, 0);
    ground.pass(700);
    assert!(!takes(&limiter, 2).await, "four of five are still taken");
    assert!(takes(&limiter, 1).await);
    assert_eq!(ground.books("test"), (0, 5));
}

/// 5, by Java: its value of 0 records less than its grants, and the grants count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_java_forgets_at_a_lower_rate_is_found_in_the_grants() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    assert!(takes(&limiter, 4).await);
    ground.pass(300);
    assert!(takes(&limiter, 4).await);
    let _ = ground.ask(&["HSET", "test", "rate", "5"]);
    let _ = ground.ask(&["SET", "{test}:value", "0"]);
    ground.pass(700);
    assert!(!takes(&limiter, 2).await);
}

/// 6: in Java a request for 0 permits leaves a grant that makes other requests wait for a negative time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_nothing_are_neither_made_nor_waited_for() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(2, 1_000)).await;
    assert!(matches!(limiter.try_acquire_n(0).await, Err(RedissonError::NoPermits)));
    assert!(matches!(limiter.acquire(0).await, Err(RedissonError::NoPermits)));

    assert!(takes(&limiter, 2).await);
    ground.pass(400);
    ground.plant("{test}:permits", ground.now_ms() - 900, &grant(&[7; 16], 0));
    let AcquireOutcome::Refused(refusal) = limiter.try_acquire().await.unwrap() else { panic!("both are taken") };
    assert_eq!(refusal.retry_after, Duration::from_millis(600));
    ground.pass(100);
    assert!(!takes(&limiter, 1).await);
    assert_eq!(ground.grants("{test}:permits").len(), 1, "it goes when its time has come");
}

/// 7: a negative number of permits cannot be expressed, and more than a grant can hold is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_do_not_fit_are_refused() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(1 << 40, 1_000)).await;
    let error = limiter.try_acquire_n((1 << 32) + 7).await.unwrap_err();
    assert!(matches!(error, RedissonError::TooManyPermits { permits: 0x1_0000_0007 }), "{error}");
    assert!(takes(&limiter, u64::from(u32::MAX)).await);
    assert_eq!(ground.books("test"), ((1 << 40) - i64::from(u32::MAX), i64::from(u32::MAX)));
}

/// 8: in Java one clock five seconds ahead makes all clients wait for six seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_from_the_future_counts_from_now() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test", overall(1, 1_000)).await;
    let server_ms = u64::try_from(ground.ask(&["TIME"]).items()[0].integer()).unwrap() * 1_000;
    ground.plant("{test}:permits", server_ms + 5_000, &grant(&[7; 16], 1));
    let _ = ground.ask(&["SET", "{test}:value", "0"]);
    let AcquireOutcome::Refused(refusal) = limiter.try_acquire().await.unwrap() else { panic!("it counts") };
    assert!(refusal.retry_after <= Duration::from_secs(1), "{refusal:?}");
}

/// 8: only the server's clock counts. After it is set back no client waits for long, and clients with skewed clocks
/// agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_back_locks_no_caller_out() {
    let ground = Ground::on_the_servers_clock().await;
    let limiter = ground.limiter("test", overall(1, 1_000)).await;
    assert!(takes(&limiter, 1).await);
    ground.server.clock().step_back(Duration::from_secs(3_600));
    let AcquireOutcome::Refused(refusal) = limiter.try_acquire().await.unwrap() else { panic!("it counts") };
    assert!(refusal.retry_after <= Duration::from_secs(1), "{refusal:?}");
    ground.pass(1_000);
    assert!(takes(&limiter, 1).await);
}

/// 9 is kept on purpose: Java relies on every attempt to keep a limiter alive, and would otherwise see it expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_attempt_keeps_the_limiter_alive_as_javas_does() {
    let ground = Ground::on_the_servers_clock().await;
    let limiter = ground.limiter("test", overall(1, 10_000).keep_alive(Duration::from_secs(10)).unwrap()).await;
    assert!(takes(&limiter, 1).await);
    ground.pass(4_000);
    assert!(!takes(&limiter, 1).await);
    let Lifetime::Left(left) = limiter.remaining_ttl().await.unwrap() else { panic!("it was to be kept alive") };
    assert!(left > Duration::from_secs(9), "{left:?}");
}

/// 10: in Java the first request after the value is gone ignores the grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_count_without_a_value() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    assert!(takes(&limiter, 3).await);
    let _ = ground.ask(&["DEL", "{test}:value"]);
    assert!(!takes(&limiter, 3).await);
    assert!(takes(&limiter, 2).await);
    assert_eq!(ground.books("test"), (0, 5));
}
