//! Lost replies: the server has charged, and the client does not know.

use std::time::Duration;

use ratekeeper_core::Source;
use ratekeeper_redis::RedisConfig;
use ratekeeper_testkit::servers::{Cluster, FaultProxy, RedisServer, wait_until};

use crate::{
    TIMEOUT, cycles,
    traffic::{Asker, key_name},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_whose_answer_is_lost_is_charged_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let asker = Asker::connect(&proxy.url(), RedisConfig::default().deadline(DEADLINE)).await;
    lose_answers(&asker, &proxy).await;
}

/// Clients of a cluster often resend calls without a reply; the store does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_too_it_is_charged_once() {
    let cluster = Cluster::with().without_replicas().start();
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let proxies: Vec<_> = nodes.iter().map(|node| FaultProxy::to(node.address())).collect();
    // Every node announces the proxy's address, so that all traffic passes it.
    for (node, proxy) in nodes.iter().zip(&proxies) {
        let _ = node.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).expect_ok();
    }
    wait_until("all nodes to know the proxies", TIMEOUT, || nodes.iter().all(|node| names_only(node, &proxies)));
    let seeds: Vec<_> = proxies.iter().map(FaultProxy::address).collect();
    let url = format!("redis+cluster://{}", seeds.join(","));
    let asker = Asker::connect(&url, RedisConfig::default().deadline(DEADLINE)).await;
    // The test kit cannot map announced addresses to nodes. The owner of the slot is the node that has the key.
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

/// Loses the replies to takes of different costs, one connection each.
async fn lose_answers(asker: &Asker, proxy: &FaultProxy) {
    let before = warm_up(asker).await;
    let (mut sent, mut lost) = (0, 0);
    for turn in 0..6 * cycles() {
        let cost = 1 + turn % 5;
        let known = asker.store.counts().ambiguous_calls;
        proxy.swallow_next_replies(1);
        let call = asker.take(0, cost).await;
        let is_unknown = asker.store.counts().ambiguous_calls > known;
        // A background call may lose its reply instead; the take is then decided as usual.
        assert!(is_unknown ^ call.is_from(Source::Store), "{call:?}");
        // Executed without a reply, and granted locally: charged for both. Too few are admitted, never too many.
        sent += cost + if is_unknown { call.granted() } else { 0 };
        lost += u64::from(is_unknown);
        // This connection gets no more replies. The network closes it at some point; a new one answers.
        proxy.pass();
        proxy.cut();
        assert_eq!(asker.until_used(0).await - before, sent, "after {lost} lost answers");
    }
    println!("{lost} answers lost; {sent} permits charged");
    assert!(lost >= 3 * cycles(), "most replies are lost");
}

/// Takes until the server knows the script and has stored the rules, so that the replies lost later are decisions.
async fn warm_up(asker: &Asker) -> u64 {
    for _ in 0..3 {
        asker.until_used(0).await;
        asker.take(0, 1).await;
    }
    asker.until_used(0).await
}

/// Also long enough for the `rate` rule to refill after the previous take, so that every take is charged.
const DEADLINE: Duration = Duration::from_millis(200);
