//! Deadlines that pass because of a delayed process, and because of a silent server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "how long it took is worth reading")]

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use ratekeeper_core::{Ask, HealthStatus, OnQuotaChange, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::RedisServer;
use support::poll_until;

const DEADLINE: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(20);

async fn fixture(server: &RedisServer) -> (RedisStore, RedisPolicy) {
    let config = RedisConfig::default().deadline(DEADLINE);
    let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
    let rule = Rule::token_bucket("r", Quota::per_day(1_000));
    let policy = store.install(Policy::new("p", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
    poll_until("decision by the store", TIMEOUT, async || {
        let decision = store.decide(&[Ask::new(&policy, "k")], Verb::Take(Take::now())).await.unwrap();
        // Merged calls have another script. Both must be known to the server, or a call is sent twice.
        let take = || async { store.decide(&[Ask::new(&policy, "warm")], Verb::Take(Take::now())).await.unwrap() };
        let _ = tokio::join!(take(), take(), take());
        decision.source == Source::Store && store.counts().merged_calls > 0
    })
    .await;
    (store, policy)
}

/// The only thread is blocked for longer than the deadline while the server's replies arrive: they are used.
#[test]
fn replies_that_arrived_in_time_are_used_even_if_read_late() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (by_store, counts) = runtime.block_on(async {
        let (store, policy) = fixture(&server).await;
        let mut by_store = 0;
        for _ in 0..10 {
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let (store, policy) = (store.clone(), policy.clone());
                    tokio::spawn(async move {
                        store.decide(&[Ask::new(&policy, "k")], Verb::Take(Take::now())).await.unwrap().source
                    })
                })
                .collect();
            // The calls are sent by then. This blocks the only thread while the replies arrive.
            tokio::spawn(async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                thread::sleep(3 * DEADLINE);
            });
            for call in calls {
                by_store += u64::from(call.await.unwrap() == Source::Store);
            }
        }
        (by_store, store.counts())
    });
    println!("{by_store} of 200 decided by the store; {counts:?}");
    assert_eq!(counts.breaker_opened, 0, "{counts:?}");
    // A busy machine may delay the server as well.
    assert!(by_store >= 100, "{by_store} of 200: {counts:?}");
}

/// A call to a silent server ends at its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_silent_server_ends_at_its_deadline() {
    let server = RedisServer::start();
    let (store, policy) = fixture(&server).await;
    server.pause();
    let decision = store.decide(&[Ask::new(&policy, "k")], Verb::Take(Take::now())).await.unwrap();
    assert_eq!(decision.source, Source::Local);
    let counts = store.counts();
    assert!(counts.silent_store + counts.silent_by_own_delay > 0, "{counts:?}");
    server.resume();
}

/// A server that hangs is detected without traffic. (Measured: see docs/redis.md; the bound here leaves room
/// for a busy machine.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_is_detected_without_traffic() {
    let server = RedisServer::start();
    let (store, _policy) = fixture(&server).await;
    assert_eq!(store.health(), HealthStatus::Up);
    server.pause();
    let start = Instant::now();
    let is_down = async || matches!(store.health(), HealthStatus::Down(_));
    poll_until("detection", Duration::from_secs(4), is_down).await;
    println!("known after {:?}", start.elapsed());
    server.resume();
}
