//! The layers on Redis: several servers share counts, several clients share backoffs.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, StatusCode};
use ratekeeper::{Limiter, OnStoreFailure, Quota, RedisConfig, RedisStore, Rule, Verdict};
use ratekeeper_testkit::servers::RedisServer;
use ratekeeper_tower::{
    RateLimitLayer, WaitError,
    client::{ThrottleError, ThrottleLayer},
};
use support::{Text, from_user, greet, limiter_on, send, user_key};
use tower::{Layer, ServiceExt, service_fn};

async fn limiter(server: &RedisServer, rule: Rule) -> Limiter<RedisStore> {
    // On a busy machine calls may miss the default deadline; the local share would decide then.
    let config = RedisConfig::default().deadline(Duration::from_secs(20));
    limiter_on(RedisStore::connect_with(&server.url(), config).await.unwrap(), [rule])
}

#[tokio::test]
async fn two_servers_share_a_limit() {
    let redis = RedisServer::start();
    let hour = || Rule::sliding_log("hour", Quota::per_hour(3));
    let here = RateLimitLayer::new(limiter(&redis, hour()).await, user_key()).layer(service_fn(greet));
    let there = RateLimitLayer::new(limiter(&redis, hour()).await, user_key()).layer(service_fn(greet));
    let mut served = Vec::new();
    for service in [&here, &there, &here, &there] {
        let response = send(service, from_user("ann")).await;
        served.push((response.status.as_u16(), response.header("ratelimit").split(';').nth(1).unwrap().to_owned()));
    }
    let expected = [(200, "r=2"), (200, "r=1"), (200, "r=0"), (429, "r=0")];
    assert_eq!(served, expected.map(|(status, left)| (status, left.to_owned())));
}

#[tokio::test]
async fn a_concurrency_permit_is_held_in_all_processes_until_the_body_has_ended() {
    let redis = RedisServer::start();
    let slot = || Rule::concurrency("slot", 1, Duration::from_secs(60));
    let (here, there) = (limiter(&redis, slot()).await, limiter(&redis, slot()).await);
    let service = RateLimitLayer::new(here, user_key()).layer(service_fn(greet));
    let held = service.oneshot(from_user("ann")).await.unwrap();
    assert_eq!(there.peek("ann").await.unwrap().remaining(), 0);
    drop(held);
    // The cancellation is sent in the background; the store receives it a moment later.
    let other = RateLimitLayer::new(there, user_key()).layer(service_fn(greet));
    while send(&other, from_user("ann")).await.status != StatusCode::OK {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_rule_that_fails_closed_is_refused_with_503() {
    let redis = RedisServer::start();
    let closed = Rule::sliding_log("hour", Quota::per_hour(3)).on_store_failure(OnStoreFailure::Closed);
    let store = RedisStore::connect(&redis.url()).await.unwrap();
    let service = RateLimitLayer::new(limiter_on(store, [closed]), user_key()).layer(service_fn(greet));
    redis.kill();
    let refused = send(&service, from_user("ann")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{refused:?}");
    assert!(refused.seconds("retry-after") >= 1);
    assert!(refused.body.contains("#temporary-reduced-capacity"), "{}", refused.body);
}

#[tokio::test]
async fn a_backoff_holds_in_all_processes() {
    let redis = RedisServer::start();
    let rule = || Rule::token_bucket("partner", Quota::per_second(1_000));
    let calls = Arc::new(AtomicU64::new(0));
    let peer = |calls: Arc<AtomicU64>| {
        service_fn(move |_: Request<Text>| {
            calls.fetch_add(1, Ordering::SeqCst);
            let response = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "1000");
            std::future::ready(Ok::<_, Infallible>(response.body(Text::default()).unwrap()))
        })
    };
    let (here, there) = (limiter(&redis, rule()).await, limiter(&redis, rule()).await);
    let client = ThrottleLayer::new(here).layer(peer(Arc::clone(&calls)));
    send(&client, from_user("ann")).await;

    // The block is sent in the background; the store receives it a moment later.
    let blocked = |decision: ratekeeper::Decision| matches!(decision.verdict, Verdict::Deny { .. });
    while !blocked(there.check("api.test").await.unwrap()) {
        tokio::task::yield_now().await;
    }
    let other = ThrottleLayer::new(there).max_wait(Duration::from_secs(10)).layer(peer(Arc::clone(&calls)));
    let error = other.oneshot(from_user("bob")).await.unwrap_err();
    assert!(matches!(error, ThrottleError::NotAcquired(WaitError::TimeoutExceeded { .. })), "{error:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
