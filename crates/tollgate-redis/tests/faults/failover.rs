//! A primary that dies, and sentinels that put another in its place.

use std::time::Duration;

use tollgate_redis::RedisConfig;
use tollgate_testkit::servers::{Sentinels, wait_until};

use crate::{
    PATIENCE, SECOND, calls,
    checker::Books,
    cycles,
    traffic::{KEYS, Traffic},
};

/// What the replica had not heard of is lost: one burst per key at most. Nobody needs to be told where to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_costs_at_most_one_burst_per_key() {
    for _ in 0..ATTEMPTS {
        let servers = Sentinels::start();
        let books = fail_over(&servers).await;
        // A failover that nobody asked for costs a burst that is not in the books, and would be blamed on the store.
        // That says something about a machine on which sentinels miss each other, and nothing about the store.
        if servers.failovers() == books.losses.len() {
            books.check(&[servers.primary()]);
            return;
        }
        println!("{} kills, {} failovers: once more", books.losses.len(), servers.failovers());
    }
    panic!("sentinels failed over unasked in each of {ATTEMPTS} runs: the machine is too busy for this test");
}

/// Kills one primary after the other under traffic.
async fn fail_over(servers: &Sentinels) -> Books {
    be_patient(servers);
    let mut traffic = Traffic::start("sentinel failover", &servers.url(), RedisConfig::default()).await;
    let kills = cycles().div_ceil(2);
    for kill in 1..=kills {
        traffic.calls(calls()).await;
        let old = servers.primary();
        old.kill();
        traffic.lost(0..KEYS);
        servers.wait_for_failover(old, PATIENCE);
        // The sentinels agree; the rest is ours.
        traffic.until_exact(ASKED_AGAIN_WITHIN).await;
        old.restart();
        if kill < kills {
            wait_until("the old primary to follow the new one", PATIENCE, || {
                servers.primary().info("connected_slaves").as_deref() == Some("2")
            });
        }
    }
    traffic.finish().await
}

/// Lets the sentinels wait longer before they call a primary dead: by default here they take a machine that compiles for
/// one that has died.
fn be_patient(servers: &Sentinels) {
    for sentinel in servers.sentinels() {
        let words = ["SENTINEL", "SET", "mymaster", "down-after-milliseconds", DEAD_AFTER_MS];
        let _ = sentinel.command(&words).expect_ok();
    }
}

/// How often a run is begun anew because the machine got in its way.
const ATTEMPTS: usize = 3;

const DEAD_AFTER_MS: &str = "3000";

/// The sentinels are asked again at least once a second.
const ASKED_AGAIN_WITHIN: Duration = SECOND.saturating_mul(3);
