//! Failover of one shard of a cluster.

use ratekeeper_core::Source;
use ratekeeper_redis::RedisConfig;
use ratekeeper_testkit::servers::{Cluster, RedisServer};

use crate::{
    SECOND, TIMEOUT, calls, cycles,
    traffic::{KEYS, Traffic, key_name},
};

/// Keys on other shards are decided by their servers throughout; each key of the lost shard costs at most a burst.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_missed_by_its_own_keys_only() {
    // Otherwise every shard refuses commands while one of them has no primary.
    let cluster = Cluster::with().config("cluster-require-full-coverage", "no").start();
    let config = RedisConfig::default().deadline(SECOND / 2);
    let mut traffic = Traffic::start("cluster failover", &cluster.url(), config).await;
    for _ in 0..cycles().div_ceil(2) {
        traffic.until_exact(3 * SECOND).await;
        traffic.calls(calls()).await;
        let lost = owner_of(&cluster, 0);
        let hit: Vec<usize> = (0..KEYS).filter(|key| owner_of(&cluster, *key).port() == lost.port()).collect();
        assert!(hit.len() < KEYS, "some keys are on other shards");
        let before = traffic.so_far().len();
        lost.kill();
        traffic.lost(hit.iter().copied());
        traffic.calls(calls()).await;
        cluster.settle(TIMEOUT);
        traffic.until_exact(3 * SECOND).await;
        let meanwhile = traffic.so_far().split_off(before);
        let strays = meanwhile.iter().filter(|call| !hit.contains(&call.key) && !call.is_from(Source::Store)).count();
        assert_eq!(strays, 0, "decisions without the store on other shards, of {}", meanwhile.len());
        lost.restart();
        cluster.settle(TIMEOUT);
    }
    let books = traffic.finish().await;
    books.check(&cluster.primaries());
}

fn owner_of(cluster: &Cluster, key: usize) -> &RedisServer {
    cluster.node_of_slot(cluster.slot_of(&key_name(key)))
}
