//! Limiters on Redis: the same decisions as in memory, shared.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratekeeper::{Limiter, LimiterEvent, OnStoreFailure, Quota, RedisConfig, RedisStore, Rule, Source};
use ratekeeper_testkit::servers::RedisServer;

async fn limiter(server: &RedisServer, rule: Rule) -> Limiter<RedisStore> {
    // On a busy machine a reply may miss the default deadline, and fallback would decide.
    let config = RedisConfig::default().deadline(Duration::from_secs(20));
    let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
    Limiter::builder().rule(rule).store(store).build().unwrap()
}

#[tokio::test]
async fn two_limiters_share_one_limit() {
    let server = RedisServer::start();
    let hour = || Rule::sliding_log("hour", Quota::per_hour(3));
    let (here, there) = (limiter(&server, hour()).await, limiter(&server, hour()).await);
    let mut left = Vec::new();
    for limiter in [&here, &there, &here, &there] {
        let decision = limiter.check("user:42").await.unwrap();
        assert_eq!(decision.source, Source::Store);
        left.push((decision.is_allowed(), decision.remaining()));
    }
    assert_eq!(left, [(true, 2), (true, 1), (true, 0), (false, 0)]);
}

#[tokio::test]
async fn a_lease_is_shared() {
    let server = RedisServer::start();
    let slot = || Rule::concurrency("slot", 1, Duration::from_secs(60));
    let (here, there) = (limiter(&server, slot()).await, limiter(&server, slot()).await);
    let held = here.hold("job").await.unwrap();
    assert!(!there.check("job").await.unwrap().is_allowed());
    drop(held);
}

/// The observer reports the loss of the server once, and its return once.
#[tokio::test]
async fn an_observer_sees_the_store_lost_and_back() {
    let server = RedisServer::start();
    let seen: Arc<Mutex<Vec<&str>>> = Arc::default();
    let events = Arc::clone(&seen);
    let rule = Rule::token_bucket("minute", Quota::per_minute(1_000_000)).on_store_failure(OnStoreFailure::Open);
    let limiter = Limiter::builder()
        .rule(rule)
        .store(RedisStore::connect(&server.url()).await.unwrap())
        .observer(move |event: &LimiterEvent<'_>| {
            if let LimiterEvent::StoreHealth { status, .. } = event {
                events.lock().unwrap().push(status.name());
            }
        })
        .build()
        .unwrap();
    let until = async |expected: &[&str]| {
        for _ in 0..2_000 {
            let _ = limiter.check("user:42").await.unwrap();
            if *seen.lock().unwrap() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(*seen.lock().unwrap(), expected);
    };
    assert!(limiter.check("user:42").await.unwrap().is_allowed());
    server.kill();
    until(&["down"]).await;
    server.restart();
    until(&["down", "up"]).await;
}

/// `redisson` and `gateway` come with the same feature.
#[tokio::test]
async fn limits_shared_with_java_are_re_exported() {
    use ratekeeper::{
        gateway::{GatewayBucket, GatewayLimits, IdRule},
        redisson::{Rate, RedissonClient},
    };
    let server = RedisServer::start();
    let limiter = RedissonClient::connect(&server.url()).await.unwrap().rate_limiter("api");
    assert!(limiter.try_set_rate(&Rate::overall(1, Duration::from_secs(60)).unwrap()).await.unwrap());
    assert!(limiter.try_acquire().await.unwrap().is_granted());
    assert!(!limiter.try_acquire().await.unwrap().is_granted());

    let limits = GatewayLimits::new(0.01, 1.0).unwrap();
    let bucket = GatewayBucket::connect(&server.url(), limits).await.unwrap();
    let bucket = bucket.id_rule(IdRule::Spring { route: "search".to_owned() });
    assert!(bucket.check("user-42").await.unwrap().allowed);
    assert!(!bucket.check("user-42").await.unwrap().allowed);
}
