//! Cluster: redirects, slots that move, nodes that fail.

use std::time::Duration;

use ratekeeper_testkit::servers::Cluster;

use super::support::*;
use crate::link::{error::NotExecuted, *};

const FAILOVER: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_slots_that_move() {
    let cluster = Cluster::with().without_replicas().start();
    // One seed suffices to find the other nodes.
    let bench = Bench::patient(&format!("redis+cluster://{}", cluster.nodes()[2].address()));
    for number in 0..50 {
        let key = format!("key:{number}");
        assert_eq!(bench.count_patiently(&key).await, Ok(1));
        assert_eq!(super::super::slots::slot_of(key.as_bytes()), cluster.slot_of(&key));
    }
    assert_eq!(bench.counters.redirects_followed.get(), 0, "the slot map is correct");
    assert_eq!(bench.link.nodes().len(), 3);
    assert!(bench.link.share_a_slot(&[b"{a}1", b"{a}2"]) && !bench.link.share_a_slot(&[b"a", b"b"]));

    // `MOVED`: one redirect, then none.
    let slot = cluster.slot_of("key:1");
    let to = *cluster.primaries().iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();
    cluster.migrate_slot(slot, to);
    assert_eq!(bench.count_patiently("key:1").await, Ok(2));
    assert_eq!(bench.counters.redirects_followed.get(), 1);
    assert_eq!(bench.count_patiently("key:1").await, Ok(3));
    assert_eq!(bench.counters.redirects_followed.get(), 1);

    // Slot in migration: a key that has not moved yet, one that has, and a new one.
    let slot = cluster.slot_of("{tag}");
    let to = *cluster.primaries().iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();
    for key in ["{tag}:1", "{tag}:2"] {
        assert_eq!(bench.count_patiently(key).await, Ok(1));
    }
    let redirects = bench.counters.redirects_followed.get();
    let moving = cluster.begin_move(slot, to);
    assert_eq!(bench.count_patiently("{tag}:1").await, Ok(2), "on the old node");
    assert_eq!(bench.counters.redirects_followed.get(), redirects);
    assert_eq!(bench.count_patiently("{tag}:new").await, Ok(1), "created on the new node");
    assert_eq!(bench.count_patiently("{tag}:new").await, Ok(2));
    assert_eq!(bench.counters.redirects_followed.get(), redirects + 2, "ASK applies to one call");
    while moving.move_keys(10) > 0 {}
    // The new owner has lost the script: it is sent in full, with ASKING again.
    let _ = to.command(&["SCRIPT", "FLUSH"]).expect_ok();
    assert_eq!(bench.count_patiently("{tag}:1").await, Ok(3), "on the new node");
    moving.finish();
    assert_eq!(bench.count_patiently("{tag}:2").await, Ok(2));
    assert_eq!(bench.counters.ambiguous_calls.get(), 0);
}

/// The keys of one call are on both sides of a move: `TRYAGAIN` until they are together again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_keys_split_by_a_move() {
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
    assert!(matches!(parted, Err(CallError::NotExecuted { why: NotExecuted::TryAgain, .. })), "{parted:?}");
    let both = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        moving.move_keys(10);
        moving.finish();
    };
    let (runs, ()) = tokio::join!(bench.count_among(&keys, TIMEOUT), both);
    assert_eq!(runs, Ok(2));
    assert_eq!(bench.counters.ambiguous_calls.get(), 0);
}

/// One node stops answering: calls about its keys soon fail at once, and those about other keys succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_breaker_of_one_node_does_not_affect_the_others() {
    let cluster = Cluster::with().without_replicas().config("cluster-require-full-coverage", "no").start();
    let bench = Bench::to(&cluster.url());
    let keys: Vec<_> = (0..30).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        bench.until_it_works(key, TIMEOUT).await;
    }
    let sick = cluster.node_of_slot(cluster.slot_of("key:0"));
    let (theirs, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| cluster.node_of_slot(cluster.slot_of(key)).port() == sick.port());
    sick.pause();
    // Five failures open the breaker; delays of this process do not count.
    for tries in 0.. {
        assert!(tries < 100, "the breaker stays closed");
        if let CallError::NotExecuted { .. } = bench.count(theirs[0]).await.unwrap_err() {
            break;
        }
    }
    let start = Instant::now();
    for _ in 0..200 {
        let error = bench.count(theirs[0]).await.unwrap_err();
        assert!(matches!(error, CallError::NotExecuted { .. }), "{error}");
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
async fn calls_follow_a_failover() {
    let cluster = Cluster::start();
    let bench = Bench::to(&cluster.url());
    bench.until_it_works("k", TIMEOUT).await;
    let old = cluster.node_of_slot(cluster.slot_of("k"));
    let replica = cluster.replicas_of(old)[0];
    old.kill();
    bench.until_it_works("k", FAILOVER).await;
    assert_eq!(replica.info("role").as_deref(), Some("master"));
    assert!(bench.link.nodes().iter().any(|node| node.is_connected && node.address.port == replica.port()));
    // The old primary, back as a replica, is not asked.
    old.restart();
    cluster.settle(FAILOVER);
    assert_eq!(cluster.node_of_slot(cluster.slot_of("k")).port(), replica.port());
    bench.until_it_works("k", TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_node_addressed_as_a_single_server_is_an_error() {
    let cluster = Cluster::with().without_replicas().start();
    let bench = Bench::patient(&format!("redis://{}", cluster.nodes()[0].address()));
    let away = ["a", "b", "c", "d", "e", "f"]
        .into_iter()
        .find(|key| cluster.node_of_slot(cluster.slot_of(key)).port() != cluster.nodes()[0].port());
    let message = bench.count_patiently(away.unwrap()).await.unwrap_err().to_string();
    assert!(message.contains("redis+cluster://"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_an_absent_cluster_fail_at_once() {
    let bench = Bench::to("redis+cluster://127.0.0.1:1,127.0.0.1:2");
    let _ = bench.count_patiently("k").await.unwrap_err();
    let start = Instant::now();
    for _ in 0..100 {
        let error = bench.count("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::Unreachable { .. }, .. }), "{error}");
    }
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
}
