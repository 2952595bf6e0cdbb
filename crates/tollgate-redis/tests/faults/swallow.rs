//! Answers that get lost on the way back: the server has charged, and nobody knows.

use std::time::Duration;

use tollgate_core::Source;
use tollgate_redis::RedisConfig;
use tollgate_testkit::servers::{Cluster, FaultProxy, RedisServer, wait_until};

use crate::{
    PATIENCE, cycles,
    traffic::{Asker, key_name},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_whose_answer_is_lost_is_charged_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let asker = Asker::connect(&proxy.url(), RedisConfig::default().deadline(DEADLINE)).await;
    lose_answers(&asker, &proxy).await;
}

/// A cluster's client is often the first to send again what it got no answer to. Ours is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_too_it_is_charged_once() {
    let cluster = Cluster::with().without_replicas().start();
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let proxies: Vec<_> = nodes.iter().map(|node| FaultProxy::to(node.address())).collect();
    // Every node gives the proxy's address as its own, so there is no way round.
    for (node, proxy) in nodes.iter().zip(&proxies) {
        let _ = node.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).expect_ok();
    }
    wait_until("all nodes to know the proxies", PATIENCE, || nodes.iter().all(|node| names_only(node, &proxies)));
    let seeds: Vec<_> = proxies.iter().map(FaultProxy::address).collect();
    let url = format!("redis+cluster://{}", seeds.join(","));
    let asker = Asker::connect(&url, RedisConfig::default().deadline(DEADLINE)).await;
    // The nodes go by other addresses now, so the test kit cannot say who owns the slot: whoever has the key does.
    asker.until_used(0).await;
    assert!(asker.take(0, 1).await.is_from(Source::Store));
    let in_front = nodes.iter().position(|node| {
        let keys = node.command(&["KEYS", &format!("*{{{}}}", key_name(0))]).expect_ok();
        !keys.items().is_empty()
    });
    lose_answers(&asker, &proxies[in_front.unwrap()]).await;
}

fn names_only(node: &RedisServer, proxies: &[FaultProxy]) -> bool {
    node.command(&["CLUSTER", "SLOTS"]).items().iter().all(|range| {
        let port = range.items()[2].items()[1].integer();
        proxies.iter().any(|proxy| i64::from(proxy.port()) == port)
    })
}

/// Loses the answer to one take after another, each of another cost, and has the client make a new connection each time.
async fn lose_answers(asker: &Asker, proxy: &FaultProxy) {
    let before = warm_up(asker).await;
    let (mut sent, mut lost) = (0, 0);
    for turn in 0..6 * cycles() {
        let cost = 1 + turn % 5;
        let known = asker.store.counts().ambiguous_calls;
        proxy.swallow_next_replies(1);
        let call = asker.take(0, cost).await;
        let is_unknown = asker.store.counts().ambiguous_calls > known;
        // What goes on in the background may lose an answer in its place; then the take was decided as usual.
        assert!(is_unknown ^ call.is_from(Source::Store), "{call:?}");
        // Carried out with its answer lost, and granted here: charged for both, so too few are admitted, never too many.
        sent += cost + if is_unknown { call.granted() } else { 0 };
        lost += u64::from(is_unknown);
        // The connection is deaf from now on. The network ends it at last; a new one is sound.
        proxy.pass();
        proxy.cut();
        assert_eq!(asker.until_used(0).await - before, sent, "after {lost} lost answers");
    }
    println!("{lost} answers lost; {sent} permits charged");
    assert!(lost >= 3 * cycles(), "most of them do get lost");
}

/// Until the server knows the script, and the rules are written down: what is lost afterwards is a decision.
async fn warm_up(asker: &Asker) -> u64 {
    for _ in 0..3 {
        asker.until_used(0).await;
        asker.take(0, 1).await;
    }
    asker.until_used(0).await
}

/// Also long enough for the rule that bites to forget the take before: each one is charged.
const DEADLINE: Duration = Duration::from_millis(200);
