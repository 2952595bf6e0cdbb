//! Lost replies: the call was executed, and must not be sent again.

use std::time::Duration;

use ratekeeper_testkit::servers::{Cluster, FaultProxy, RedisServer, wait_until};
use redis::cmd;

use super::support::*;
use crate::link::*;

const LOST: u64 = 8;

/// Settings that reconnect without delay, so that a resend would occur if it could.
fn eager() -> LinkSettings {
    let soon = Duration::from_millis(1);
    LinkSettings { redial_min: soon, redial_max: soon, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_is_lost_runs_exactly_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Bench::with(&proxy.url(), eager());
    bench.until_it_works("warm", TIMEOUT).await;
    lose_replies(&bench, &proxy, "k").await;
    assert_eq!(server.command(&["GET", "k"]).integer(), i64::try_from(LOST).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_cluster_whose_reply_is_lost_runs_exactly_once() {
    let cluster = Cluster::with().without_replicas().start();
    let owner = cluster.node_of_slot(cluster.slot_of("k"));
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let proxies: Vec<_> = nodes.iter().map(|node| FaultProxy::to(node.address())).collect();
    // Every node announces the proxy's address, so that all traffic passes it.
    for (node, proxy) in nodes.iter().zip(&proxies) {
        let _ = node.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).expect_ok();
    }
    wait_until("all nodes to know the proxies", TIMEOUT, || {
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
    bench.until_it_works("k", TIMEOUT).await;
    let mut forget = cmd("DEL");
    bench.link.command(Destination::Key(b"k"), forget.arg("k"), Instant::now() + TIMEOUT).await.unwrap();

    let in_front = nodes.iter().position(|node| node.port() == owner.port()).unwrap();
    lose_replies(&bench, &proxies[in_front], "k").await;
    assert_eq!(owner.command(&["GET", "k"]).integer(), i64::try_from(LOST).unwrap());
}

/// Loses the replies to several calls, one connection each, while a resend is possible.
async fn lose_replies(bench: &Bench, proxy: &FaultProxy, key: &str) {
    for call in 1..=LOST {
        proxy.swallow_next_replies(1);
        let error = bench.count_within(key, Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error}");
        assert_eq!(bench.counters.ambiguous_calls.get(), call);
        // Closes the connection without replies, as a network does at some point; a new one answers.
        let before = bench.counters.reconnects.get();
        proxy.cut();
        wait_until("a new connection in good health", TIMEOUT, || {
            let check_ready = bench.link.nodes().iter().all(|node| node.is_connected && node.is_breaker_closed);
            check_ready && bench.counters.reconnects.get() > before
        });
    }
}
