//! Requests with ids over a network that loses replies: each is charged exactly once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::{sync::Arc, time::Duration};

use ratekeeper_core::{
    Align, Ask, Decision, OnExpiry, OnQuotaChange, OnStoreFailure, Policy, Quota, RequestId, Rule, Source, Span, Store,
    StoreError, Take, Terms, Verb,
};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::{FaultProxy, RedisServer};
use tokio::sync::Semaphore;

const TAKE: Verb = Verb::Take(Take::now());

/// The rules refuse what the server does not answer, so that every grant is the server's.
async fn store(url: &str, deadline: Duration) -> (RedisStore, RedisPolicy) {
    let store = RedisStore::connect_with(url, RedisConfig::default().deadline(deadline)).await.unwrap();
    let rule = Rule::fixed_window_aligned("day", Quota::per_day(100_000), Align::FirstRequest);
    let rule = rule.on_store_failure(OnStoreFailure::Closed);
    let policy = store.install(Policy::new("ids", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
    (store, policy)
}

/// Sends a request until the server has answered it.
async fn until_answered(store: &RedisStore, policy: &RedisPolicy, id: RequestId) -> Decision {
    loop {
        let decision = store.decide_with(&[Ask::new(policy, "key")], TAKE, Terms::id(id)).await.unwrap();
        if let Source::Store | Source::Repeated = decision.source {
            assert!(decision.is_allowed());
            return decision;
        }
        // The circuit breaker is open.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn used(store: &RedisStore, policy: &RedisPolicy) -> u64 {
    let decision = store.decide_by_server(&[Ask::new(policy, "key")], &Verb::Peek).await.unwrap();
    decision.limit() - decision.remaining()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_whose_replies_are_lost_are_charged_exactly_once() {
    const REQUESTS: u64 = 1_000;
    const LOST: usize = 8;
    let server = RedisServer::start();
    let proxy = Arc::new(FaultProxy::to(("127.0.0.1", server.port())));
    let (store, policy) = store(&proxy.url(), Duration::from_millis(300)).await;
    let permits = Arc::new(Semaphore::new(32));
    let tasks = (0..REQUESTS).map(|number| {
        let (store, policy, permits) = (store.clone(), policy.clone(), Arc::clone(&permits));
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            if number % (REQUESTS / LOST as u64) == 7 {
                proxy.swallow_next_replies(1);
            }
            until_answered(&store, &policy, RequestId::of(number.to_string())).await.source
        })
    });
    let mut repeated = 0;
    for task in tasks.collect::<Vec<_>>() {
        repeated += u64::from(task.await.unwrap() == Source::Repeated);
    }
    proxy.pass();
    let (direct, policy) = self::store(&server.url(), Duration::from_secs(20)).await;
    assert!(repeated > 0, "no reply was lost after its request was charged");
    assert_eq!(used(&direct, &policy).await, REQUESTS);
    // Every id is known, so nothing more is charged.
    for number in 0..REQUESTS {
        let again = until_answered(&direct, &policy, RequestId::of(number.to_string())).await;
        assert_eq!(again.source, Source::Repeated);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_asked_for_again_within_the_deadline() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let (store, policy) = store(&proxy.url(), Duration::from_secs(4)).await;
    let id = RequestId::of("once");
    assert_eq!(until_answered(&store, &policy, RequestId::of("first")).await.source, Source::Store);
    proxy.swallow_next_replies(1);
    let decision = store.decide_with(&[Ask::new(&policy, "key").cost(10)], TAKE, Terms::id(id)).await.unwrap();
    assert_eq!((decision.source, decision.is_allowed()), (Source::Repeated, true));
    proxy.swallow_next_replies(1);
    let commit = Verb::Commit { id, actual: 4 };
    let settled = store.decide(&[Ask::new(&policy, "key")], commit).await.unwrap();
    assert_eq!(settled.granted, Some(4));
    assert_eq!(used(&store, &policy).await, 5);
}

/// Any process can finish a reservation. What the one that reserved does not finish is refunded by it, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_reservations() {
    let server = RedisServer::start();
    let (first, policy) = store(&server.url(), Duration::from_secs(20)).await;
    let (second, other) = store(&server.url(), Duration::from_secs(20)).await;
    let terms = |id: &str| Terms::id(RequestId::of(id)).lifetime(Span::from_millis(300)).on_expiry(OnExpiry::Refund);
    for (id, cost) in [("committed", 5), ("cancelled", 6), ("open", 7)] {
        let decision = first.decide_with(&[Ask::new(&policy, "key").cost(cost)], TAKE, terms(id)).await.unwrap();
        assert!(decision.is_allowed());
    }
    let ask = [Ask::new(&other, "key")];
    let _ = second.decide(&ask, Verb::Commit { id: RequestId::of("committed"), actual: 2 }).await.unwrap();
    let _ = second.decide(&ask, Verb::Cancel { id: RequestId::of("cancelled") }).await.unwrap();
    let unknown = second.decide(&ask, Verb::Cancel { id: RequestId::of("never") }).await;
    assert!(matches!(unknown, Err(StoreError::UnknownId)), "{unknown:?}");
    while used(&second, &other).await > 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(used(&second, &other).await, 2);
}

/// Without the server, ids are known to this process, and charged once when the server is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_granted_in_an_outage_are_charged_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(("127.0.0.1", server.port()));
    let config = RedisConfig::default().deadline(Duration::from_secs(1));
    let store = RedisStore::connect_with(&proxy.url(), config).await.unwrap();
    let rule = Rule::fixed_window("day", Quota::per_day(1_000)).on_store_failure(OnStoreFailure::Local);
    let policy = store.install(Policy::new("outage", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
    let ask = [Ask::new(&policy, "key").cost(3)];
    let known = store.decide(&ask, TAKE).await.unwrap();
    assert_eq!(known.source, Source::Store);

    proxy.refuse_connections();
    proxy.cut();
    let id = RequestId::of("granted here");
    let first = store.decide_with(&ask, TAKE, Terms::id(id)).await.unwrap();
    assert_eq!((first.source, first.is_allowed()), (Source::Local, true));
    assert_eq!(store.decide_with(&ask, TAKE, Terms::id(id)).await.unwrap().source, Source::Repeated);
    proxy.pass();
    store.charge_local_grants(Duration::from_secs(20)).await;
    assert_eq!(store.decide_with(&ask, TAKE, Terms::id(id)).await.unwrap().source, Source::Repeated);
    let remaining = || async { store.decide_by_server(&ask, &Verb::Peek).await.unwrap().remaining() };
    assert_eq!(remaining().await, 994);
    // The charge is corrected by the id, once.
    for _ in 0..2 {
        let settled = store.decide(&ask, Verb::Commit { id, actual: 1 }).await.unwrap();
        assert_eq!(settled.granted, Some(1));
    }
    assert_eq!(remaining().await, 996);
}
