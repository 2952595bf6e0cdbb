//! The 31 behaviours of Redisson's own test suite, under its names.
//!
//! Where the original sleeps for seconds, the test sets the clock or uses a shorter interval. The numbers of permits
//! are the same unless stated otherwise.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ratekeeper_compat::redisson::{Lifetime, RateError, RateType, RedissonError, Taken};
use tokio::{task::JoinSet, time::sleep};

use crate::{Ground, free, overall, per_client, takes};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keep_alive_time() {
    let ground = Ground::on_the_servers_clock().await;
    let short = ground.limiter("short", overall(1, 1_000).keep_alive(1_000 * MS).unwrap()).await;
    ground.pass(1_100);
    assert!(!short.exists().await.unwrap());

    let used = ground.limiter("used", overall(10, 2_000).keep_alive(2_000 * MS).unwrap()).await;
    ground.pass(1_000);
    assert!(takes(&used, 1).await);
    let Lifetime::Left(left) = used.remaining_ttl().await.unwrap() else { panic!("it was to be kept alive") };
    assert!(left > 1_500 * MS, "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expire_2() {
    let ground = Ground::on_the_servers_clock().await;
    let limiter = ground.limiter("test", overall(1, 1_000)).await;
    assert!(limiter.expire(10_000 * MS).await.unwrap());
    assert!(takes(&limiter, 1).await);
    ground.pass(12_000);
    assert_eq!(ground.keys(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expire() {
    let ground = Ground::on_the_servers_clock().await;
    let limiter = ground.limiter("test", overall(1, 1_000)).await;
    assert!(takes(&limiter, 1).await);
    assert!(limiter.expire(1_000 * MS).await.unwrap());
    ground.pass(1_100);
    assert_eq!(ground.keys(), [""; 0]);
}

/// 200 permits a second instead of 10 000 in ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_value() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test1", overall(200, 1_000)).await;
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            loop {
                limiter.acquire(1).await.unwrap();
            }
        });
    }
    sleep(500 * MS).await;
    let mut full = 0;
    for _ in 0..20 {
        sleep(100 * MS).await;
        let count = ground.ask(&["ZCARD", "{test1}:permits"]).integer();
        assert!(count <= 200, "{count}");
        full += u32::from(count == 200);
    }
    assert!(full >= 12, "{full} of 20 looks found all permits taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquisition_interval() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(2, 5_000)).await;
    assert!(takes(&limiter, 1).await);
    ground.pass(4_000);
    assert!(takes(&limiter, 1).await);
    ground.pass(1_050);
    assert!(takes(&limiter, 1).await);
    assert!(!takes(&limiter, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_config() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(1, 5_000)).await;
    let config = limiter.config().await.unwrap().unwrap();
    assert_eq!((config.permits(), config.interval(), config.kind()), (1, 5_000 * MS, RateType::Overall));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn available_permits() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 5_000)).await;
    assert_eq!(free(&limiter).await, 10);
    limiter.acquire(1).await.unwrap();
    ground.pass(6_000);
    assert_eq!(free(&limiter).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_config() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(1, 5_000)).await;
    limiter.set_rate(&overall(2, 5_000), Taken::Forgotten).await.unwrap();
    assert_eq!(limiter.config().await.unwrap(), Some(overall(2, 5_000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_exceeding() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", per_client(1, 1_000)).await;
    let error = limiter.try_acquire_n(20).await.unwrap_err();
    assert!(matches!(error, RedissonError::AboveRate { permits: 20, rate: 1 }), "{error}");
    assert!(takes(&limiter, 1).await, "nothing was charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zero_timeout() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(5, 1_000)).await;
    let at_once = || async { limiter.try_acquire_timeout(1, Duration::ZERO).await.unwrap().is_granted() };
    assert_eq!(free(&limiter).await, 5);
    assert!(at_once().await && at_once().await);
    assert_eq!(free(&limiter).await, 3);
    assert!(at_once().await && at_once().await);
    assert_eq!(free(&limiter).await, 1);
    assert!(at_once().await);
    assert_eq!(free(&limiter).await, 0);
    for _ in 0..5 {
        assert!(!at_once().await);
    }
    ground.pass(1_000);
    for turn in 0..10 {
        assert_eq!(at_once().await, turn < 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn try_acquire() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test", overall(1, 5_000)).await;
    assert!(limiter.try_acquire_timeout(1, 1_000 * MS).await.unwrap().is_granted());
    let started = Instant::now();
    assert!(!limiter.try_acquire_timeout(1, 300 * MS).await.unwrap().is_granted());
    assert!(started.elapsed() < 2_000 * MS);
    assert!(!takes(&limiter, 1).await);
}

/// One permit in 200 ms, five times, instead of one in five seconds, ten times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test", overall(1, 200)).await;
    let started = Instant::now();
    for _ in 0..5 {
        limiter.acquire(1).await.unwrap();
    }
    assert!(!takes(&limiter, 1).await);
    assert!(started.elapsed() >= 790 * MS, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    assert!(!limiter.try_set_rate(&overall(20, 1_000)).await.unwrap());
    for _ in 0..3 {
        for turn in 0..20 {
            assert_eq!(takes(&limiter, 1).await, turn < 10);
        }
        ground.pass(1_050);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove() {
    let ground = Ground::new().await;
    let limiter = ground.client.rate_limiter("test");
    assert!(!limiter.delete().await.unwrap());
    assert!(limiter.try_set_rate(&overall(5, 5_000)).await.unwrap());
    assert_eq!(ground.keys(), ["test"]);
    assert!(takes(&limiter, 1).await);
    assert!(limiter.delete().await.unwrap());
    assert_eq!(ground.keys(), [""; 0]);
}

/// 18 permits in 250 ms instead of a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_2() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test", overall(18, 250)).await;
    let (count, grants) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (limiter, count, grants) = (limiter.clone(), Arc::clone(&count), Arc::clone(&grants));
        tasks.spawn(async move {
            while count.fetch_add(1, Ordering::Relaxed) < 100 {
                limiter.acquire(1).await.unwrap();
                grants.lock().unwrap().push(Instant::now());
            }
        });
    }
    tasks.join_all().await;
    no_window_has_more_than(18, 250 * MS, &mut grants.lock().unwrap());
}

/// 10 permits in 250 ms instead of a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("test", overall(10, 250)).await;
    let grants = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (limiter, grants) = (limiter.clone(), Arc::clone(&grants));
        tasks.spawn(async move {
            while grants.lock().unwrap().len() < 60 {
                if takes(&limiter, 1).await {
                    grants.lock().unwrap().push(Instant::now());
                }
                sleep(MS * (1 + task)).await;
            }
        });
    }
    tasks.join_all().await;
    no_window_has_more_than(10, 250 * MS, &mut grants.lock().unwrap());
}

/// Times are taken after the reply, so a window may look shorter by the time of a reply.
fn no_window_has_more_than(rate: usize, interval: Duration, grants: &mut [Instant]) {
    grants.sort();
    for window in grants.windows(rate + 1) {
        let span = window[rate] - window[0];
        assert!(span > interval - 60 * MS, "{} grants within {span:?}", rate + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_rate() {
    let ground = Ground::new().await;
    for (name, rate) in [("own", per_client as fn(u64, u64) -> _), ("shared", overall)] {
        let limiter = ground.client.rate_limiter(name);
        for permits in [10, 20] {
            limiter.set_rate(&rate(permits, 1_000), Taken::Forgotten).await.unwrap();
            limiter.acquire(1).await.unwrap();
            assert_eq!(free(&limiter).await, permits - 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_state_args() {
    let ground = Ground::new().await;
    let limiter = ground.client.rate_limiter("test");
    limiter.set_rate(&overall(10, 1_000), Taken::Kept).await.unwrap();
    limiter.acquire(3).await.unwrap();
    assert_eq!(free(&limiter).await, 7);
    ground.pass(1_100);
    limiter.acquire(3).await.unwrap();
    assert_eq!(free(&limiter).await, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_state_args_keep_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(3).await.unwrap();
    limiter.set_rate(&overall(20, 1_000), Taken::Kept).await.unwrap();
    assert_eq!(free(&limiter).await, 17);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_state_args_not_keep_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(3).await.unwrap();
    limiter.set_rate(&overall(20, 1_000), Taken::Forgotten).await.unwrap();
    assert_eq!(free(&limiter).await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_non_existing() {
    let ground = Ground::new().await;
    let limiter = ground.client.rate_limiter("test");
    for rate in [overall(10, 1_000), per_client(10, 1_000)] {
        assert!(!limiter.update_rate(&rate, Taken::Kept).await.unwrap());
        assert!(!limiter.exists().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_keeps_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    assert!(limiter.update_rate(&overall(10, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 10);
    limiter.acquire(2).await.unwrap();
    assert_eq!(free(&limiter).await, 8);
    assert!(!takes(&limiter, 10).await);
    assert!(takes(&limiter, 8).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_higher_rate() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 2_000)).await;
    limiter.acquire(4).await.unwrap();
    assert!(limiter.update_rate(&overall(20, 5_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 16);
    assert!(takes(&limiter, 16).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_lower_rate_new_value_positive() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(3).await.unwrap();
    assert!(limiter.update_rate(&overall(5, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 2);
    assert!(!takes(&limiter, 3).await);
    assert!(takes(&limiter, 2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_lower_rate_new_value_negative() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(8).await.unwrap();
    assert!(limiter.update_rate(&overall(5, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 0);
    assert!(!takes(&limiter, 1).await);
    assert!(!takes(&limiter, 2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_permit_reset_full() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(8).await.unwrap();
    ground.pass(2_000);
    assert!(limiter.update_rate(&overall(10, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_mode_change_clears_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 1_000)).await;
    limiter.acquire(4).await.unwrap();
    assert!(limiter.update_rate(&per_client(10, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(ground.keys(), ["test"]);
    assert_eq!(free(&limiter).await, 10);
}

#[test]
fn update_rate_keep_alive_time_less_than_interval_throws() {
    let refused = overall(10, 5_000).keep_alive(1_000 * MS);
    assert!(matches!(refused, Err(RateError::KeepAliveTooShort { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_rate_interval_change_drops_expired() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", overall(10, 5_000)).await;
    limiter.acquire(3).await.unwrap();
    ground.pass(1_100);
    assert!(limiter.update_rate(&overall(10, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_rate_per_client_uses_client_state() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("test", per_client(10, 1_000)).await;
    limiter.acquire(3).await.unwrap();
    assert!(limiter.update_rate(&per_client(20, 1_000), Taken::Kept).await.unwrap());
    assert_eq!(free(&limiter).await, 17);
}

/// Without the negative number of permits, which the type excludes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release() {
    let ground = Ground::new().await;
    for (name, rate) in [("own", per_client(10, 1_000)), ("shared", overall(10, 1_000))] {
        let limiter = ground.limiter(name, rate).await;
        limiter.acquire(3).await.unwrap();
        assert_eq!(free(&limiter).await, 7);
        for permits in [3, 10, 0] {
            limiter.release(permits).await.unwrap();
            assert_eq!(free(&limiter).await, 10);
        }
    }
}
