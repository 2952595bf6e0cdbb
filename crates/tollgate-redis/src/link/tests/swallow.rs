//! Replies get lost on the way back: the call ran, and must not run again.

use std::time::Duration;

use redis::cmd;
use tollgate_testkit::servers::{Cluster, FaultProxy, RedisServer, wait_until};

use super::support::*;
use crate::link::*;

const LOST: u64 = 8;

/// Would dial, and send again, as soon as anyone could.
fn eager() -> LinkSettings {
    let soon = Duration::from_millis(1);
    LinkSettings { redial_min: soon, redial_max: soon, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_is_lost_runs_exactly_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Bench::with(&proxy.url(), eager());
    bench.until_it_works("warm", PATIENCE).await;
    lose_replies(&bench, &proxy, "k").await;
    assert_eq!(server.command(&["GET", "k"]).integer(), i64::try_from(LOST).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_too_it_runs_exactly_once() {
    let cluster = Cluster::with().without_replicas().start();
    let owner = cluster.node_of_slot(cluster.slot_of("k"));
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let proxies: Vec<_> = nodes.iter().map(|node| FaultProxy::to(node.address())).collect();
    // Every node gives the proxy's address as its own, so there is no way round.
    for (node, proxy) in nodes.iter().zip(&proxies) {
        let _ = node.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).expect_ok();
    }
    wait_until("all nodes to know the proxies", PATIENCE, || {
        nodes.iter().all(|node| {
            let slots = node.command(&["CLUSTER", "SLOTS"]);
            slots.items().iter().all(|range| {
                let port = range.items()[2].items()[1].integer();
                proxies.iter().any(|proxy| i64::from(proxy.port()) == port)
            })
        })
    });
    let seeds: Vec<_> = proxies.iter().map(FaultProxy::address).collect();
    let bench = Bench::with(&format!("redis+cluster://{}", seeds.join(",")), eager());
    bench.until_it_works("k", PATIENCE).await;
    let mut forget = cmd("DEL");
    bench.link.command(Whom::Key(b"k"), forget.arg("k"), Instant::now() + PATIENCE).await.unwrap();

    let in_front = nodes.iter().position(|node| node.port() == owner.port()).unwrap();
    lose_replies(&bench, &proxies[in_front], "k").await;
    assert_eq!(owner.command(&["GET", "k"]).integer(), i64::try_from(LOST).unwrap());
}

/// Loses the replies to several calls, one connection each, and gives the link every chance to send one again.
async fn lose_replies(bench: &Bench, proxy: &FaultProxy, key: &str) {
    for call in 1..=LOST {
        proxy.swallow_next_replies(1);
        let error = bench.count_within(key, Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error}");
        assert_eq!(bench.counters.ambiguous_calls.get(), call);
        // The connection is deaf now. End it, as a network would in the end; a new one is sound.
        let before = bench.counters.reconnects.get();
        proxy.cut();
        wait_until("a new connection in good health", PATIENCE, || {
            let is_well = bench.link.nodes().iter().all(|node| node.is_connected && node.is_breaker_closed);
            is_well && bench.counters.reconnects.get() > before
        });
    }
}
