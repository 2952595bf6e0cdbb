//! Server crashes, and restarts without data or with the data of the append-only file.

use ratekeeper_redis::RedisConfig;
use ratekeeper_testkit::servers::{RedisBuilder, RedisServer};

use crate::{
    SECOND, SLACK, calls,
    checker::{BURST, Books, Tally},
    cycles,
    traffic::{KEYS, Traffic},
};

/// Kills the server under traffic once per cycle, and restarts it with `comes_back`.
async fn crash(name: &'static str, choices: RedisBuilder, loses: bool, comes_back: fn(&RedisServer)) -> (Books, Tally) {
    let server = choices.start();
    let mut traffic = Traffic::start(name, &server.url(), RedisConfig::default()).await;
    for _ in 0..cycles() {
        // Enough calls to exhaust the burst of every key.
        traffic.calls(2 * calls()).await;
        server.kill();
        if loses {
            traffic.lost(0..KEYS);
        }
        traffic.calls(calls() / 10).await;
        comes_back(&server);
        traffic.until_exact(SECOND + SLACK).await;
    }
    traffic.calls(calls()).await;
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert!(tally.exact < books.requests, "some calls are decided without the server");
    (books, tally)
}

/// After each crash every key starts in its initial state, which costs at most one burst per key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_restart_costs_one_burst_per_key() {
    let (books, tally) = crash("empty restart", RedisServer::with(), true, RedisServer::restart_empty).await;
    assert!(tally.charged < tally.granted, "the server has lost charges");
    assert!(tally.fullest_unforgiven > BURST, "without the allowance for losses the bound is exceeded");
    assert!(books.counts.reconnects >= cycles());
}

/// Every change is on disk before its reply is sent, so no grant is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_where_every_change_is_written_down_first() {
    let choices = RedisServer::with().append_only().config("appendfsync", "always");
    crash("restart, appendfsync always", choices, false, RedisServer::restart).await;
}

/// Up to a second of changes may be lost, which costs no more than any other loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_tail_costs_at_most_one_burst_per_key() {
    let choices = RedisServer::with().append_only().config("appendfsync", "everysec");
    crash("restart, appendfsync everysec", choices, true, RedisServer::restart).await;
}
