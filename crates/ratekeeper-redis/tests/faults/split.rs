//! Split brain: two primaries answer at once, after sentinels lost contact with one and promoted another.

use std::time::Instant;

use ratekeeper_redis::RedisConfig;
use ratekeeper_testkit::servers::{RedisServer, Sentinels, wait_until};

use crate::{
    SECOND, SLACK, TIMEOUT, calls,
    checker::{BURST, Books, RATE, every_key_expires},
    traffic::{KEYS, Traffic},
};

/// While a client uses the wrong primary, both sides count separately: the cost is a burst, and the rate for that time.
/// The client finds the new primary within a second, because it asks the sentinels periodically.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_brain_costs_a_burst_and_the_rate_while_it_lasts() {
    let servers = Sentinels::start();
    let before = Traffic::start("split brain, early", &servers.url(), RedisConfig::default()).await;
    before.calls(calls()).await;

    let old = servers.primary();
    hide_from_sentinels(old);
    let new = servers.wait_for_failover(old, TIMEOUT);
    let split = Instant::now();
    // New connections go to the new primary; older ones may still be to the old one.
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
    wait_until("the old primary to follow the new one", TIMEOUT, || {
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
    assert!(lasted <= SECOND + SLACK, "old primary in use for {lasted:?}");
    every_key_expires(new);
}

/// The server refuses the pings and the commands of sentinels, and serves all other clients.
fn hide_from_sentinels(server: &RedisServer) {
    let _ = server.command(&["ACL", "SETUSER", "default", "-ping", "-replicaof", "-slaveof"]).expect_ok();
}

fn show_to_sentinels(server: &RedisServer) {
    let _ = server.command(&["ACL", "SETUSER", "default", "+@all"]).expect_ok();
}

/// Scripts that the server has run so far.
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
