//! The front door on Redis: what it says in memory, and shared.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate::{Limiter, Quota, RedisConfig, RedisStore, Rule, Source};
use tollgate_testkit::servers::RedisServer;

async fn limiter(server: &RedisServer, rule: Rule) -> Limiter<RedisStore> {
    // A busy machine may miss the usual deadline, and the local share would answer.
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
async fn a_held_place_is_held_for_everyone() {
    let server = RedisServer::start();
    let slot = || Rule::concurrency("slot", 1, Duration::from_secs(60));
    let (here, there) = (limiter(&server, slot()).await, limiter(&server, slot()).await);
    let held = here.hold("job").await.unwrap();
    assert!(!there.check("job").await.unwrap().is_allowed());
    drop(held);
}

/// What is shared with Java lies on the keys of others, and comes by the same feature.
#[tokio::test]
async fn limits_shared_with_java_are_behind_the_same_door() {
    use tollgate::{
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
