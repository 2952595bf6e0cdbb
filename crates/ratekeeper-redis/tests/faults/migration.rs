//! Slot migration between nodes while the keys are in use.

use ratekeeper_testkit::servers::Cluster;

use crate::{
    calls, cycles,
    traffic::{KEYS, Traffic, key_name, patient},
};

/// Every decision comes from the store, is exact, and is charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_traffic_changes_no_decision() {
    let cluster = Cluster::with().without_replicas().start();
    let traffic = Traffic::start("slot migration", &cluster.url(), patient()).await;
    for cycle in 0..cycles() {
        for key in 0..KEYS {
            let slot = cluster.slot_of(&key_name(key));
            let from = cluster.node_of_slot(slot);
            let elsewhere = cluster.nodes().iter().filter(|node| node.port() != from.port());
            let to = elsewhere.cycle().nth(usize::try_from(cycle).unwrap()).unwrap();
            let moving = cluster.begin_move(slot, to);
            // The key is on the old node, then on the new one, while the slot still belongs to the old node.
            traffic.calls(calls() / 20).await;
            moving.move_keys(100);
            traffic.calls(calls() / 20).await;
            moving.finish();
            traffic.calls(calls() / 20).await;
        }
    }
    let books = traffic.finish().await;
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let tally = books.check(&nodes);
    assert_eq!(tally.exact, books.requests, "every call is decided by the store");
    assert_eq!(tally.charged, tally.granted);
    assert_eq!(books.counts.ambiguous_calls, 0);
    assert!(books.counts.redirects_followed >= cycles() * KEYS as u64);
}
