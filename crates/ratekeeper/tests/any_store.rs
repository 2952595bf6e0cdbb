//! A store chosen at run time: one type, the same decisions, errors that name the remedy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use ratekeeper::{AnyStore, Limiter, ManualClock, MemoryConfig, MemoryStore, Quota, Request, Rule, StoreConfig};

fn limiter(store: AnyStore) -> Limiter<AnyStore> {
    let rule = |limit| Rule::token_bucket("minute", Quota::per_minute(limit));
    Limiter::builder().policy("free", [rule(3)]).policy("pro", [rule(30)]).store(store).build().unwrap()
}

/// The remaining permits after each of some requests.
async fn decisions(limiter: &Limiter<AnyStore>) -> Vec<(bool, u64)> {
    let pro = Request::new("user").policy("pro");
    let mut seen = Vec::new();
    for request in ["user".into(), ("user", 2).into(), "user".into(), pro, pro.cost(40), Request::new("other")] {
        let decision = limiter.check(request).await.unwrap();
        seen.push((decision.is_allowed(), decision.remaining()));
    }
    seen
}

const EXPECTED: [(bool, u64); 6] = [(true, 2), (true, 0), (false, 0), (true, 29), (false, 29), (true, 2)];

#[tokio::test]
async fn memory_is_opened_by_name() {
    let store = AnyStore::open("memory").await.unwrap();
    assert_eq!((store.kind(), store.is_immediate()), ("memory", true));
    assert_eq!(decisions(&limiter(store)).await, EXPECTED);
}

#[tokio::test]
async fn a_manual_clock_works_behind_the_same_type() {
    let clock = ManualClock::default();
    let limiter = limiter(AnyStore::from(MemoryStore::with_clock(clock.clone())));
    assert_eq!(decisions(&limiter).await, EXPECTED);
    clock.advance(Duration::from_secs(20));
    assert_eq!(limiter.check("user").await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn settings_reach_the_store() {
    let config = StoreConfig::new().memory(MemoryConfig::default().budget_bytes(64 << 10));
    let store = AnyStore::open_with("memory", config).await.unwrap();
    let limiter = limiter(store);
    for number in 0..20_000 {
        let _ = limiter.check(&format!("user {number}")).await.unwrap();
    }
    let AnyStore::Memory(store) = limiter.store() else { panic!("another store") };
    assert!(store.bytes() <= 64 << 10, "{}", store.bytes());
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn an_address_of_redis_needs_its_feature() {
    let error = AnyStore::open("redis://user:secret@host").await.unwrap_err().to_string();
    assert!(error.contains("feature \"redis\"") && !error.contains("secret"), "{error}");
}

#[cfg(feature = "redis")]
mod redis {
    use ratekeeper::{OpenStoreError, RedisConfig};
    use ratekeeper_testkit::servers::RedisServer;

    use super::*;

    #[tokio::test]
    async fn redis_is_opened_by_its_address_and_decides_the_same() {
        let server = RedisServer::start();
        // On a busy machine a reply may miss the default deadline, and fallback would decide.
        let config = StoreConfig::new().redis(RedisConfig::default().deadline(Duration::from_secs(20)));
        let store = AnyStore::open_with(&server.url(), config.clone()).await.unwrap();
        assert_eq!((store.kind(), store.is_immediate()), ("redis", false));
        assert_eq!(decisions(&limiter(store)).await, EXPECTED);

        let second = limiter(AnyStore::open_with(&server.url(), config).await.unwrap());
        assert!(!second.check("user").await.unwrap().is_allowed(), "shared with the first");
    }

    #[tokio::test]
    async fn another_word_than_memory_is_named() {
        let error = AnyStore::open("memroy").await.unwrap_err();
        assert!(matches!(error, OpenStoreError::Address(_)));
        assert!(error.to_string().ends_with("or use memory, which needs no server"), "{error}");
        let error = AnyStore::open("mysql://user:secret@host").await.unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    /// A handle of one store is not taken for a policy of another.
    #[tokio::test]
    async fn policies_of_another_store_are_refused() {
        use ratekeeper::{
            OnQuotaChange, Policy,
            store::{Ask, Store, Take, Verb},
        };

        let server = RedisServer::start();
        let redis = AnyStore::open(&server.url()).await.unwrap();
        let memory = AnyStore::open("memory").await.unwrap();
        let policy = || Policy::new("p", [Rule::token_bucket("minute", Quota::per_minute(3))]).unwrap();
        let (in_redis, in_memory) = (
            redis.install(policy(), OnQuotaChange::Keep).unwrap(),
            memory.install(policy(), OnQuotaChange::Keep).unwrap(),
        );
        let take = Verb::Take(Take::now());
        for (store, handle) in [(&redis, &in_memory), (&memory, &in_redis)] {
            let error = store.decide(&[Ask::new(handle, "user")], take).await.unwrap_err().to_string();
            assert!(error.contains("the policy belongs to another store"), "{error}");
        }
    }
}
