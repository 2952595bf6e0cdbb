//! Whether the server can decide is known without anybody asking for a decision, and no single key can cloud it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate_core::{Ask, Carry, Policy, Quota, Rule, Source, Store, Take, Verb};
use tollgate_redis::{RedisConfig, RedisPolicy, RedisStore, Standing};
use tollgate_testkit::servers::{Cluster, Process, RedisServer, Reply, wait_until};

struct Desk {
    store: RedisStore,
    policy: RedisPolicy,
}

impl Desk {
    async fn at(url: &str) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_millis(300));
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let rule = Rule::token_bucket("few", Quota::per_day(1_000));
        let policy = store.install(Policy::new("desk", [rule]).unwrap(), Carry::Keep).unwrap();
        Self { store, policy }
    }

    async fn source_of(&self, key: &str) -> Source {
        self.store.decide(&[Ask::new(&self.policy, key)], Verb::Take(Take::now(1))).await.unwrap().source
    }

    fn is_away_for(&self, cause: &str) -> bool {
        matches!(self.store.standing(), Standing::Away(why) if why.contains(cause))
    }

    #[track_caller]
    fn wait_away(&self, cause: &str) {
        wait_until(cause, PATIENCE, || self.is_away_for(cause));
    }

    #[track_caller]
    fn wait_well(&self) {
        wait_until("it is well again", PATIENCE, || self.store.standing() == Standing::Well);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_and_comes_is_noticed_though_nobody_calls() {
    let server = RedisServer::start();
    let desk = Desk::at(&server.url()).await;
    desk.wait_well();
    server.kill();
    desk.wait_away("no connection");
    server.restart();
    desk.wait_well();
    assert_eq!(desk.store.counts().decided_by_store, 0, "nobody has called");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_never_there_is_away_from_the_start() {
    let desk = Desk::at(&format!("redis://127.0.0.1:{}", Process::free_port())).await;
    assert!(matches!(desk.store.standing(), Standing::Away(_)), "{:?}", desk.store.standing());
    desk.wait_away("no connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_that_is_too_slow_says_nothing_and_several_do() {
    let server = RedisServer::start();
    let desk = Desk::at(&server.url()).await;
    desk.wait_well();
    assert_eq!(desk.source_of("a").await, Source::Store);
    server.pause();
    assert_eq!(desk.source_of("a").await, Source::Local);
    assert_eq!(desk.store.standing(), Standing::Well);
    for _ in 0..5 {
        desk.source_of("a").await;
    }
    assert!(desk.is_away_for("no answer within"), "{:?}", desk.store.standing());
    server.resume();
    desk.wait_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_under_one_key_says_nothing_about_the_server() {
    let server = RedisServer::start();
    let desk = Desk::at(&server.url()).await;
    desk.wait_well();
    assert_eq!(desk.source_of("canary").await, Source::Store);
    let name = "tollgate:1:/desk:{canary}";
    assert_eq!(server.command(&["EXISTS", name]), Reply::Integer(1));
    for foreign in [["SET", name, "garbage"], ["LPUSH", name, "of another kind"]] {
        let _ = server.command(&["DEL", name]).expect_ok();
        let _ = server.command(&foreign).expect_ok();
        for _ in 0..10 {
            assert_ne!(desk.source_of("canary").await, Source::Store);
        }
        assert_eq!(desk.store.standing(), Standing::Well);
    }
    assert_eq!(desk.source_of("other").await, Source::Store);
}

/// Such a server greets everybody, and decides nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_is_away_until_it_takes_them_again() {
    let server = RedisServer::start();
    let desk = Desk::at(&server.url()).await;
    let sicknesses = [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"], "out of memory"),
        (["REPLICAOF", "127.0.0.1", "1", ""], ["REPLICAOF", "NO", "ONE", ""], "replica"),
    ];
    for (fall_ill, get_well, cause) in sicknesses {
        let words = |words: [&'static str; 4]| words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let _ = server.command(&words(fall_ill)).expect_ok();
        assert_eq!(desk.source_of("key-canary").await, Source::Local);
        desk.wait_away(cause);
        let told = format!("{:?}", desk.store.standing());
        assert!(!told.contains("canary"), "{told}");
        let _ = server.command(&words(get_well)).expect_ok();
        desk.wait_well();
        assert_eq!(desk.source_of("a").await, Source::Store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_a_node_is_partly_well_and_one_that_is_down_is_away() {
    let cluster = Cluster::with().without_replicas().start();
    let desk = Desk::at(&cluster.url()).await;
    desk.wait_well();
    cluster.nodes()[0].kill();
    let is_partly = || matches!(desk.store.standing(), Standing::Partly(why) if why.contains("1 of 3 nodes"));
    wait_until("one node is missed", PATIENCE, is_partly);
    // The others notice after their own while, and then refuse whatever has a key.
    let runtime = tokio::runtime::Handle::current();
    let ask = |key: &&str| _ = tokio::task::block_in_place(|| runtime.block_on(desk.source_of(key)));
    wait_until("the cluster is down", PATIENCE, || {
        ["a", "b", "c", "d", "e"].iter().for_each(ask);
        desk.is_away_for("the cluster is down")
    });
}

const PATIENCE: Duration = Duration::from_secs(20);
