//! The limiter for threads on Redis: a background thread instead of a runtime of the caller.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use ratekeeper::{
    AnyStore, BlockingLimiter, Limiter, OpenBlockingError, Quota, RedisConfig, Rule, Source, StoreConfig,
};
use ratekeeper_testkit::servers::RedisServer;

const MINUTE: Duration = Duration::from_secs(60);

fn open(server: &RedisServer, rule: Rule) -> BlockingLimiter<AnyStore> {
    // On a busy machine a reply may miss the default deadline, and fallback would decide.
    let config = StoreConfig::new().redis(RedisConfig::default().deadline(Duration::from_secs(20)));
    Limiter::builder().rule(rule).open_blocking_with(&server.url(), config).unwrap()
}

#[test]
fn threads_of_two_limiters_share_one_limit() {
    let server = RedisServer::start();
    let hour = || Rule::sliding_log("hour", Quota::per_hour(100));
    let limiters = [open(&server, hour()), open(&server, hour())];
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for limiter in &limiters {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let decision = limiter.check("shared").unwrap();
                        assert_eq!(decision.source, Source::Store);
                        admitted.fetch_add(u64::from(decision.is_allowed()), Ordering::Relaxed);
                    }
                });
            }
        }
    });
    assert_eq!(admitted.into_inner(), 100, "of 160");
}

#[test]
fn acquire_and_hold_wait_for_the_shared_state() {
    let server = RedisServer::start();
    let limiter = open(&server, Rule::token_bucket("even", Quota::per_second(100).burst(1)));
    limiter.acquire("u").unwrap();
    assert!(limiter.acquire("u").unwrap().decision.is_allowed());

    let slot = || Rule::concurrency("slot", 1, MINUTE);
    let (here, there) = (open(&server, slot()), open(&server, slot()));
    let lease = here.hold("job").unwrap();
    assert!(there.hold_within("job", Duration::ZERO).is_err());
    drop(lease); // released by a task on the background thread; the other process polls
    there.hold("job").unwrap().release().unwrap();
    assert_eq!(here.peek("job").unwrap().remaining(), 1);
}

/// A limiter that is dropped in a task ends its thread without a panic; its guards keep the thread alive.
#[test]
fn a_guard_outlives_its_limiter_and_a_drop_in_a_task_is_no_panic() {
    let server = RedisServer::start();
    let slot = || Rule::concurrency("slot", 1, MINUTE);
    let lease = open(&server, slot()).hold("job").unwrap();
    assert!(lease.heartbeat().unwrap());
    lease.release().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limiter = open(&server, slot());
        assert!(limiter.check("job").unwrap().is_allowed());
        drop(limiter);
    });
}

/// On a runtime of the caller, which its own threads drive.
#[test]
fn a_limiter_of_a_runtime_is_asked_by_threads() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let limiter = runtime.block_on(async {
        let store = AnyStore::open(&server.url()).await.unwrap();
        Limiter::builder().rule(Rule::fixed_window("day", Quota::per_day(2))).store(store).build().unwrap()
    });
    let blocking = limiter.blocking_on(runtime.handle().clone());
    let asked = thread::spawn(move || blocking.check("u").unwrap().is_allowed());
    assert!(asked.join().unwrap());
}

#[test]
fn an_address_or_rule_that_is_not_valid_is_an_error() {
    let builder = || Limiter::builder().rule(Rule::fixed_window("day", Quota::per_day(2)));
    assert!(matches!(builder().open_blocking("http://x").unwrap_err(), OpenBlockingError::Store(_)));
    assert!(matches!(Limiter::builder().open_blocking("memory").unwrap_err(), OpenBlockingError::Build(_)));
    assert!(builder().open_blocking("memory").unwrap().check("u").unwrap().is_allowed());
}
