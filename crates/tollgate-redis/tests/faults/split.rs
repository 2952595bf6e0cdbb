//! Two primaries at once: sentinels that lost sight of one have named another, and both answer.

use std::time::Instant;

use tollgate_redis::RedisConfig;
use tollgate_testkit::servers::{RedisServer, Sentinels, wait_until};

use crate::{
    PATIENCE, SECOND, SLACK, calls,
    checker::{BURST, Books, RATE, every_key_expires},
    traffic::{KEYS, Traffic},
};

/// Each side counts by itself for as long as somebody is on the wrong one: a burst, and the rate for that time. Whoever
/// is there learns of it within the second, because the sentinels are asked again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_brain_costs_a_burst_and_the_rate_while_it_lasts() {
    let servers = Sentinels::start();
    let before = Traffic::start("split brain, early", &servers.url(), RedisConfig::default()).await;
    before.calls(calls()).await;

    let old = servers.primary();
    hide_from_sentinels(old);
    let new = servers.wait_for_failover(old, PATIENCE);
    let split = Instant::now();
    // Whoever comes now is sent to the new one, while those who were there before may still be with the old.
    let after = Traffic::start("split brain, late", &servers.url(), RedisConfig::default()).await;
    let mut seen = scripts_run(old);
    let mut lasted = split.elapsed();
    while split.elapsed() < lasted + SECOND {
        before.calls(8).await;
        let now = scripts_run(old);
        if now > seen {
            (seen, lasted) = (now, split.elapsed());
        }
    }
    show_to_sentinels(old);
    wait_until("the old primary to follow the new one", PATIENCE, || {
        old.info("master_link_status").as_deref() == Some("up")
    });
    before.until_exact(SECOND + SLACK).await;
    after.until_exact(SECOND + SLACK).await;
    let mended = Instant::now();
    before.calls(calls()).await;

    let (before, after) = (before.finish().await, after.finish().await);
    let most = 2 * BURST + RATE * (lasted.as_secs() + 1);
    let everything = merged(&before, &after, None);
    let mut fullest = 0;
    for key in 0..KEYS {
        fullest = fullest.max(everything.fullest_by_store(key));
        let since = merged(&before, &after, Some(mended)).fullest_by_store(key);
        assert!(since <= BURST, "key {key}: {since} above the leak after the end of the split");
    }
    println!("split brain: {lasted:?} with two primaries; fullest {fullest}, {most} allowed");
    assert!(fullest <= most, "{fullest} above the leak, {most} allowed for {lasted:?} with two primaries");
    assert!(lasted <= SECOND + SLACK, "on the wrong side for {lasted:?}");
    every_key_expires(new);
}

/// The sentinels' greetings are not answered any more, and their orders are not obeyed; everybody else is served.
fn hide_from_sentinels(server: &RedisServer) {
    let _ = server.command(&["ACL", "SETUSER", "default", "-ping", "-replicaof", "-slaveof"]).expect_ok();
}

fn show_to_sentinels(server: &RedisServer) {
    let _ = server.command(&["ACL", "SETUSER", "default", "+@all"]).expect_ok();
}

/// How many scripts the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let calls = stats.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(|line| {
        let (_, rest) = line.split_once("calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}

fn merged(before: &Books, after: &Books, since: Option<Instant>) -> Books {
    let calls = before.calls.iter().chain(&after.calls);
    let calls = calls.filter(|call| since.is_none_or(|since| call.invoked >= since)).copied().collect();
    Books { calls, losses: Vec::new(), used: before.used.clone(), counts: before.counts, ..*before }
}
