//! A primary that dies, and sentinels that put another in its place.

use std::time::Duration;

use tollgate_redis::RedisConfig;
use tollgate_testkit::servers::Sentinels;

use crate::{
    PATIENCE, SECOND, calls, cycles,
    traffic::{KEYS, Traffic},
};

/// What the replica had not heard of is lost: one burst per key at most. Nobody needs to be told where to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_costs_at_most_one_burst_per_key() {
    let servers = Sentinels::start();
    be_patient(&servers);
    let mut traffic = Traffic::start("sentinel failover", &servers.url(), RedisConfig::default()).await;
    for cycle in 0..cycles().div_ceil(2) {
        traffic.calls(calls()).await;
        let old = servers.primary();
        old.kill();
        traffic.lost(0..KEYS);
        servers.wait_for_failover(old, PATIENCE);
        // The sentinels agree; the rest is ours.
        traffic.until_exact(ASKED_AGAIN_WITHIN).await;
        old.restart();
        if cycle + 1 < cycles().div_ceil(2) {
            tollgate_testkit::servers::wait_until("the old primary to follow the new one", PATIENCE, || {
                servers.primary().info("connected_slaves").as_deref() == Some("2")
            });
        }
    }
    let books = traffic.finish().await;
    // A failover that nobody asked for would cost a burst that is not in the books, and be blamed on the store.
    assert_eq!(
        failovers(&servers),
        books.losses.len(),
        "failovers for each kill: the machine is too busy for this test"
    );
    books.check(&[servers.primary()]);
}

/// Lets the sentinels wait longer before they call a primary dead: by default here they take a machine that compiles for
/// one that has died.
fn be_patient(servers: &Sentinels) {
    for sentinel in servers.sentinels() {
        let words = ["SENTINEL", "SET", "mymaster", "down-after-milliseconds", DEAD_AFTER_MS];
        let _ = sentinel.command(&words).expect_ok();
    }
}

/// How often the primary has changed, as the first sentinel tells it.
fn failovers(servers: &Sentinels) -> usize {
    servers.sentinels()[0].log().matches("+switch-master").count()
}

const DEAD_AFTER_MS: &str = "3000";

/// The sentinels are asked again at least once a second.
const ASKED_AGAIN_WITHIN: Duration = SECOND.saturating_mul(3);
