//! Keys on several nodes, moving.

use std::time::Duration;

use tollgate_testkit::servers::Cluster;

use super::support::*;
use crate::link::{error::NotRun, *};

const FAILOVER: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_finds_its_node_and_slots_move_under_it() {
    let cluster = Cluster::with().without_replicas().start();
    // One seed is enough to find the others.
    let bench = Bench::patient(&format!("redis+cluster://{}", cluster.nodes()[2].address()));
    for number in 0..50 {
        let key = format!("key:{number}");
        assert_eq!(bench.count_patiently(&key).await, Ok(1));
        assert_eq!(super::super::slots::slot_of(key.as_bytes()), cluster.slot_of(&key));
    }
    assert_eq!(bench.counters.redirects_followed.get(), 0, "the map was right");
    assert_eq!(bench.link.nodes().len(), 3);
    assert!(bench.link.share_a_slot(&[b"{a}1", b"{a}2"]) && !bench.link.share_a_slot(&[b"a", b"b"]));

    // Moved for good: found by one redirect, and then without.
    let slot = cluster.slot_of("key:1");
    let to = *cluster.primaries().iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();
    cluster.migrate_slot(slot, to);
    assert_eq!(bench.count_patiently("key:1").await, Ok(2));
    assert_eq!(bench.counters.redirects_followed.get(), 1);
    assert_eq!(bench.count_patiently("key:1").await, Ok(3));
    assert_eq!(bench.counters.redirects_followed.get(), 1);

    // On its way: a key that is still here, one that has gone ahead, and one that is new.
    let slot = cluster.slot_of("{tag}");
    let to = *cluster.primaries().iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();
    for key in ["{tag}:1", "{tag}:2"] {
        assert_eq!(bench.count_patiently(key).await, Ok(1));
    }
    let redirects = bench.counters.redirects_followed.get();
    let moving = cluster.begin_move(slot, to);
    assert_eq!(bench.count_patiently("{tag}:1").await, Ok(2), "still here");
    assert_eq!(bench.counters.redirects_followed.get(), redirects);
    assert_eq!(bench.count_patiently("{tag}:new").await, Ok(1), "made over there");
    assert_eq!(bench.count_patiently("{tag}:new").await, Ok(2));
    assert_eq!(bench.counters.redirects_followed.get(), redirects + 2, "ASK is for once");
    while moving.move_keys(10) > 0 {}
    // The new owner has forgotten the script meanwhile; then it is sent in full, ASKING again.
    let _ = to.command(&["SCRIPT", "FLUSH"]).expect_ok();
    assert_eq!(bench.count_patiently("{tag}:1").await, Ok(3), "gone ahead");
    moving.finish();
    assert_eq!(bench.count_patiently("{tag}:2").await, Ok(2));
    assert_eq!(bench.counters.ambiguous_calls.get(), 0);
}

/// Keys of one call on both sides of a move: neither node can answer, until they are together again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_a_move_has_parted_are_waited_for() {
    let cluster = Cluster::with().without_replicas().start();
    let bench = Bench::patient(&cluster.url());
    let (keys, slot) = (["{tag}:1", "{tag}:2"], cluster.slot_of("{tag}"));
    for key in keys {
        assert_eq!(bench.count_patiently(key).await, Ok(1));
    }
    let to = *cluster.primaries().iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();
    let moving = cluster.begin_move(slot, to);
    assert_eq!(moving.move_keys(1), 1);
    let parted = bench.count_among(&keys, Duration::from_millis(600)).await;
    assert!(matches!(parted, Err(CallError::NotRun { why: NotRun::TryAgain, .. })), "{parted:?}");
    let both = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        moving.move_keys(10);
        moving.finish();
    };
    let (runs, ()) = tokio::join!(bench.count_among(&keys, PATIENCE), both);
    assert_eq!(runs, Ok(2));
    assert_eq!(bench.counters.ambiguous_calls.get(), 0);
}

/// One node stops answering: its keys fail at once after a while, and everybody else's are as exact as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sick_node_is_left_alone_while_the_others_answer() {
    let cluster = Cluster::with().without_replicas().config("cluster-require-full-coverage", "no").start();
    let bench = Bench::to(&cluster.url());
    let keys: Vec<_> = (0..30).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        bench.until_it_works(key, PATIENCE).await;
    }
    let sick = cluster.node_of_slot(cluster.slot_of("key:0"));
    let (theirs, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| cluster.node_of_slot(cluster.slot_of(key)).port() == sick.port());
    sick.pause();
    // Five failures open the breaker; those of a machine that was held up itself do not count.
    for tries in 0.. {
        assert!(tries < 100, "the node is still asked");
        if let CallError::NotRun { .. } = bench.count(theirs[0]).await.unwrap_err() {
            break;
        }
    }
    let start = Instant::now();
    for _ in 0..200 {
        let error = bench.count(theirs[0]).await.unwrap_err();
        assert!(matches!(error, CallError::NotRun { .. }), "{error}");
    }
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    for key in &others {
        bench.count_patiently(key).await.unwrap();
    }
    assert_eq!(bench.counters.breaker_opened.get(), 1);
    sick.resume();
    bench.until_it_works(theirs[0], 3 * SECOND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_killed_primary_its_replica_is_asked() {
    let cluster = Cluster::start();
    let bench = Bench::to(&cluster.url());
    bench.until_it_works("k", PATIENCE).await;
    let old = cluster.node_of_slot(cluster.slot_of("k"));
    let replica = cluster.replicas_of(old)[0];
    old.kill();
    bench.until_it_works("k", FAILOVER).await;
    assert_eq!(replica.info("role").as_deref(), Some("master"));
    assert!(bench.link.nodes().iter().any(|node| node.is_connected && node.place.port == replica.port()));
    // And when the old one comes back as a replica, it is of no interest.
    old.restart();
    cluster.settle(FAILOVER);
    assert_eq!(cluster.node_of_slot(cluster.slot_of("k")).port(), replica.port());
    bench.until_it_works("k", PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_node_spoken_to_as_a_single_server_is_told_apart() {
    let cluster = Cluster::with().without_replicas().start();
    let bench = Bench::patient(&format!("redis://{}", cluster.nodes()[0].address()));
    let away = ["a", "b", "c", "d", "e", "f"]
        .into_iter()
        .find(|key| cluster.node_of_slot(cluster.slot_of(key)).port() != cluster.nodes()[0].port());
    let message = bench.count_patiently(away.unwrap()).await.unwrap_err().to_string();
    assert!(message.contains("redis+cluster://"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_not_there_yet_is_no_reason_to_wait() {
    let bench = Bench::to("redis+cluster://127.0.0.1:1,127.0.0.1:2");
    let _ = bench.count_patiently("k").await.unwrap_err();
    let start = Instant::now();
    for _ in 0..100 {
        let error = bench.count("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotRun { why: NotRun::Unreachable { .. }, .. }), "{error}");
    }
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
}
