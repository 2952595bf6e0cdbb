//! Merged calls: concurrent requests of one key, decided as single calls would decide them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Span, Store, Take, Timestamp, Verb};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::{
    random::{Kind, Random},
    servers::{FaultProxy, RedisServer},
};

/// Deadline that a busy machine does not exceed.
const PATIENT: Duration = Duration::from_secs(20);

async fn store(url: &str) -> RedisStore {
    RedisStore::connect_with(url, RedisConfig::default().deadline(PATIENT)).await.unwrap()
}

fn install(store: &RedisStore, quota: Quota) -> RedisPolicy {
    let policy = Policy::new("merging", [Rule::token_bucket("day", quota)]).unwrap();
    store.install(policy, OnQuotaChange::Keep).unwrap()
}

async fn decide(store: &RedisStore, policy: &RedisPolicy, cost: u64, verb: Verb) -> Decision {
    let decision = store.decide(&[Ask::new(policy, "key").cost(cost)], verb).await.unwrap();
    assert_eq!(decision.source, Source::Store);
    decision
}

async fn used(store: &RedisStore, policy: &RedisPolicy) -> u64 {
    let decision = decide(store, policy, 0, Verb::Peek).await;
    decision.limit() - decision.remaining()
}

/// Script calls so far.
fn script_calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let calls = |line: &str| line.split_once(":calls=")?.1.split(',').next()?.parse::<u64>().ok();
    stats.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(calls).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_takes_leave_in_few_calls_and_admit_the_limit() {
    const TASKS: usize = 128;
    const TURNS: usize = 10;
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let policy = install(&store, Quota::per_day(100));
    let tasks = (0..TASKS).map(|_| {
        let (store, policy) = (store.clone(), policy.clone());
        tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..TURNS {
                admitted += u64::from(decide(&store, &policy, 1, Verb::Take(Take::now())).await.is_allowed());
            }
            admitted
        })
    });
    let mut admitted = 0;
    for task in tasks.collect::<Vec<_>>() {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 100);
    let (calls, counts) = (script_calls(&server), store.counts());
    assert!(calls <= (TASKS * TURNS / 4) as u64, "{calls} calls: {counts:?}");
    assert_eq!(counts.decided_by_store, (TASKS * TURNS) as u64);
    assert!(counts.merged_requests > counts.merged_calls && counts.ambiguous_calls == 0, "{counts:?}");
}

#[tokio::test]
async fn a_key_without_a_call_in_flight_is_asked_at_once() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let policy = install(&store, Quota::per_day(100));
    let _ = decide(&store, &policy, 1, Verb::Take(Take::now())).await;
    let before = script_calls(&server);
    for _ in 0..50 {
        let _ = decide(&store, &policy, 1, Verb::Take(Take::now())).await;
    }
    assert_eq!(script_calls(&server) - before, 50);
    assert_eq!(store.counts().merged_calls, 0);
}

/// On one thread, requests arrive in the order in which they are polled.
#[tokio::test]
async fn other_verbs_keep_their_place() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let policy = install(&store, Quota::per_day(3));
    let ask = |cost, verb| decide(&store, &policy, cost, verb);
    let take = || Verb::Take(Take::now());
    let decisions = join_all([
        ask(1, take()),      // sent at once
        ask(2, take()),      // waits
        ask(1, take()),      // refused: three are used
        ask(1, Verb::Reset), // all three are free again
        ask(3, take()),      // takes all three
        ask(2, Verb::Refund { at: None }),
        ask(1, Verb::Penalize), // one is left
        ask(1, take()),
        ask(1, take()), // refused
        ask(1, Verb::Peek),
    ]);
    let decisions = decisions.await;
    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed[..5], [true, true, false, true, true], "{decisions:?}");
    assert_eq!(allowed[7..9], [true, false], "{decisions:?}");
    assert_eq!(decisions[9].remaining(), 0);
}

/// Random queues are decided as by the embedded store, one request after another at the same time.
#[tokio::test]
async fn queues_are_decided_as_in_memory() {
    let (server, clock) = (RedisServer::start(), ManualClock::default());
    clock.set(Timestamp::from_secs(1_700_000_000));
    let config = RedisConfig::default().deadline(PATIENT).manual_clock(clock.clone());
    let redis = RedisStore::connect_with(&server.url(), config).await.unwrap();
    let memory = MemoryStore::with_clock(clock.clone());
    let mut random = Random::new(7);
    let kinds = [Kind::TokenBucket, Kind::Stepwise, Kind::Shaped, Kind::Epoch, Kind::FirstRequest, Kind::Counter];
    for round in 0..60 {
        let rules = (0..random.between(1, 3)).map(|number| {
            let (kind, shadow) = (random.pick(&kinds), random.one_in(6));
            random.rule(&format!("rule {number}"), kind).shadow(shadow)
        });
        let policy = Policy::new(format!("policy {round}"), rules.collect::<Vec<_>>()).unwrap();
        let on_redis = redis.install(policy.clone(), OnQuotaChange::Keep).unwrap();
        let in_memory = memory.install(policy, OnQuotaChange::Keep).unwrap();
        for _ in 0..20 {
            clock.advance(random.pause(&[1, 1_000, 1_000_000]));
            let queue: Vec<(u64, Verb)> = (0..random.between(1, 30))
                .map(|_| match random.below(10) {
                    0 => (1, Verb::Peek),
                    1 => (random.below(5), Verb::Penalize),
                    2 => (random.below(5), Verb::Refund { at: None }),
                    3 => (random.below(20), Verb::Take(Take::up_to(Span::from_micros(random.below(5_000_000))))),
                    _ => (random.below(4), Verb::Take(Take::now())),
                })
                .collect();
            let asked = queue.iter().map(|(cost, verb)| {
                let asks = [Ask::new(&on_redis, "key").cost(*cost)];
                let redis = &redis;
                async move { redis.decide(&asks, *verb).await.unwrap() }
            });
            let decisions = join_all(asked).await;
            for ((cost, verb), decision) in queue.iter().zip(decisions) {
                let expected = memory.decide_now(&[Ask::new(&in_memory, "key").cost(*cost)], verb).unwrap();
                assert_eq!(decision.with_source(expected.source), expected, "round {round}: {queue:?}");
            }
        }
    }
    let counts = redis.counts();
    assert!(counts.merged_calls > 500 && counts.merged_requests > 4 * counts.merged_calls, "{counts:?}");
}

/// A caller that does not poll its future any more keeps no other request of the key from being decided.
#[tokio::test]
async fn a_caller_that_stops_polling_delays_the_others_by_a_deadline_at_most() {
    let server = RedisServer::start();
    let deadline = Duration::from_millis(100);
    let store = RedisStore::connect_with(&server.url(), RedisConfig::default().deadline(deadline)).await.unwrap();
    let policy = install(&store, Quota::per_day(100));
    let take = || async { store.decide(&[Ask::new(&policy, "key")], Verb::Take(Take::now())).await.unwrap() };
    let _ = take().await;
    let mut first = std::pin::pin!(take());
    // Polled once: the call is in flight.
    let is_pending = poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await;
    assert!(is_pending);
    let (second, third) = tokio::time::timeout(PATIENT, async { tokio::join!(take(), take()) }).await.unwrap();
    assert!(second.is_allowed() && third.is_allowed());
    assert!(first.await.is_allowed());
    assert!(take().await.is_allowed());
}

/// A request that is dropped while it waits is not sent; one that is dropped after it was sent is undone. On one thread,
/// so that the first task is the first to ask.
#[tokio::test]
async fn a_dropped_request_charges_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let store = store(&proxy.url()).await;
    let policy = install(&store, Quota::per_day(100));
    let take = |cost| {
        let (store, policy) = (store.clone(), policy.clone());
        tokio::spawn(async move { decide(&store, &policy, cost, Verb::Take(Take::now())).await })
    };
    let _ = join_all([take(1), take(1), take(1)]).await;
    assert_eq!(used(&store, &policy).await, 3);

    proxy.delay_replies(Duration::from_millis(200));
    let (first, dropped, last) = (take(1), take(50), take(1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    dropped.abort();
    assert!(first.await.unwrap().is_allowed() && last.await.unwrap().is_allowed());
    until_used(&store, &policy, 5).await;

    let (first, dropped, last) = (take(1), take(50), take(1));
    assert!(first.await.unwrap().is_allowed());
    // The other requests have been sent.
    tokio::time::sleep(Duration::from_millis(50)).await;
    dropped.abort();
    assert!(last.await.unwrap().is_allowed());
    proxy.pass();
    until_used(&store, &policy, 7).await;
}

async fn until_used(store: &RedisStore, policy: &RedisPolicy, expected: u64) {
    let start = Instant::now();
    while used(store, policy).await != expected {
        assert!(start.elapsed() < PATIENT, "{} used, not {expected}", used(store, policy).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
