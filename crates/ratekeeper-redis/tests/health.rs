//! Health: whether the server can decide is known without traffic, and no single key affects it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use ratekeeper_core::{Ask, HealthStatus, OnQuotaChange, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::{Cluster, Process, RedisServer, Reply, wait_until};

struct Fixture {
    store: RedisStore,
    policy: RedisPolicy,
}

impl Fixture {
    async fn at(url: &str) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_millis(300));
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let rule = Rule::token_bucket("few", Quota::per_day(1_000));
        let policy = store.install(Policy::new("health", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
        Self { store, policy }
    }

    async fn source_of(&self, key: &str) -> Source {
        self.store.decide(&[Ask::new(&self.policy, key)], Verb::Take(Take::now())).await.unwrap().source
    }

    fn is_down_for(&self, cause: &str) -> bool {
        matches!(self.store.health(), HealthStatus::Down(why) if why.contains(cause))
    }

    #[track_caller]
    fn wait_until_down(&self, cause: &str) {
        wait_until(cause, TIMEOUT, || self.is_down_for(cause));
    }

    #[track_caller]
    fn wait_until_up(&self) {
        wait_until("the store is up", TIMEOUT, || self.store.health() == HealthStatus::Up);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_detected_without_traffic() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    fixture.wait_until_up();
    server.kill();
    fixture.wait_until_down("no connection");
    server.restart();
    fixture.wait_until_up();
    assert_eq!(fixture.store.counts().decided_by_store, 0, "there were no calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_started_is_down_from_the_start() {
    let fixture = Fixture::at(&format!("redis://127.0.0.1:{}", Process::free_port())).await;
    assert!(matches!(fixture.store.health(), HealthStatus::Down(_)), "{:?}", fixture.store.health());
    fixture.wait_until_down("no connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_slow_calls_make_it_down_and_one_does_not() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    fixture.wait_until_up();
    assert_eq!(fixture.source_of("a").await, Source::Store);
    server.pause();
    assert_eq!(fixture.source_of("a").await, Source::Local);
    assert_eq!(fixture.store.health(), HealthStatus::Up);
    // Other keys, because a key whose charge has failed is not retried at once.
    for key in ["b", "c", "d", "e", "f"] {
        fixture.source_of(key).await;
    }
    assert!(fixture.is_down_for("no answer within"), "{:?}", fixture.store.health());
    server.resume();
    fixture.wait_until_up();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_value_does_not_affect_health() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    fixture.wait_until_up();
    assert_eq!(fixture.source_of("canary").await, Source::Store);
    let name = "ratekeeper:1:/health:{canary}";
    assert_eq!(server.command(&["EXISTS", name]), Reply::Integer(1));
    for foreign in [["SET", name, "garbage"], ["LPUSH", name, "of another kind"]] {
        let _ = server.command(&["DEL", name]).expect_ok();
        let _ = server.command(&foreign).expect_ok();
        for _ in 0..10 {
            assert_ne!(fixture.source_of("canary").await, Source::Store);
        }
        assert_eq!(fixture.store.health(), HealthStatus::Up);
    }
    assert_eq!(fixture.source_of("other").await, Source::Store);
}

/// Such a server accepts connections but cannot decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_writes_is_down_until_it_accepts_them() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    let faults = [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"], "out of memory"),
        (["REPLICAOF", "127.0.0.1", "1", ""], ["REPLICAOF", "NO", "ONE", ""], "replica"),
    ];
    for (break_it, repair, cause) in faults {
        let words = |words: [&'static str; 4]| words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let _ = server.command(&words(break_it)).expect_ok();
        assert_eq!(fixture.source_of("key-canary").await, Source::Local);
        fixture.wait_until_down(cause);
        let status = format!("{:?}", fixture.store.health());
        assert!(!status.contains("canary"), "{status}");
        let _ = server.command(&words(repair)).expect_ok();
        fixture.wait_until_up();
        assert_eq!(fixture.source_of("a").await, Source::Store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_a_node_is_degraded_and_one_that_is_down_is_down() {
    let cluster = Cluster::with().without_replicas().start();
    let fixture = Fixture::at(&cluster.url()).await;
    fixture.wait_until_up();
    cluster.nodes()[0].kill();
    let is_degraded = || matches!(fixture.store.health(), HealthStatus::Degraded(why) if why.contains("1 of 3 nodes"));
    wait_until("one node is missing", TIMEOUT, is_degraded);
    // The other nodes detect it after their node timeout, and then refuse all commands with a key.
    let runtime = tokio::runtime::Handle::current();
    let ask = |key: &&str| _ = tokio::task::block_in_place(|| runtime.block_on(fixture.source_of(key)));
    wait_until("the cluster is down", TIMEOUT, || {
        ["a", "b", "c", "d", "e"].iter().for_each(ask);
        fixture.is_down_for("the cluster is down")
    });
}

const TIMEOUT: Duration = Duration::from_secs(20);
