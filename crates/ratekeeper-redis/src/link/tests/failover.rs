//! Sentinel: planned and unplanned failover.

use std::time::Duration;

use ratekeeper_testkit::servers::{RedisServer, Sentinels, wait_until};

use super::support::*;
use crate::link::{error::NotExecuted, *};

const FAILOVER: Duration = Duration::from_secs(20);

/// After a planned failover the old primary runs on and accepts writes for a while, all of which are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_a_planned_failover() {
    let sentinels = Sentinels::start();
    let bench = Bench::to(&sentinels.url());
    bench.until_it_works("k", TIMEOUT).await;
    let old = sentinels.primary();
    assert_eq!(bench.link.nodes()[0].address.port, old.port());

    let _ = sentinels.sentinels()[0].command(&["SENTINEL", "FAILOVER", "mymaster"]).expect_ok();
    let new = sentinels.wait_for_failover(old, FAILOVER);
    wait_until("a link to the new primary", 2 * SECOND + SLACK, || {
        let node = &bench.link.nodes()[0];
        node.is_connected && node.address.port == new.port()
    });
    bench.until_it_works("after", SECOND + SLACK).await;
    assert_eq!(new.command(&["EXISTS", "after"]).integer(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_the_failover_of_a_killed_primary() {
    let sentinels = Sentinels::start();
    let bench = Bench::to(&sentinels.url());
    bench.until_it_works("k", TIMEOUT).await;
    let old = sentinels.primary();
    old.kill();
    let new = sentinels.wait_for_failover(old, FAILOVER);
    let took = bench.until_it_works("after", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
    assert_eq!(new.command(&["EXISTS", "after"]).integer(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_sentinels_and_wrong_names_are_reported() {
    let sentinels = Sentinels::start();
    sentinels.sentinels()[0].kill();
    let bench = Bench::to(&sentinels.url());
    bench.until_it_works("k", TIMEOUT).await;

    let wrong = sentinels.url().replace("mymaster", "theirmaster");
    let message = Bench::patient(&wrong).count_patiently("k").await.unwrap_err().to_string();
    assert!(message.contains("no primary named \"theirmaster\""), "{message}");
}

/// A server has become a replica: one more attempt after a reconnect, then the error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_reconnected_to_once() {
    let primary = RedisServer::start();
    let server = RedisServer::start();
    // A connection that lasted longer than the longest pause is replaced without a pause.
    let brief = Duration::from_micros(1);
    let bench = Bench::with(&server.url(), LinkSettings { redial_min: brief, redial_max: brief, ..patient() });
    assert_eq!(bench.count_patiently("k").await, Ok(1));

    let _ = server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).expect_ok();
    let error = bench.count_patiently("k").await.unwrap_err();
    assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::ReadOnly, .. }), "{error}");
    assert_eq!(bench.counters.reconnects.get(), 1, "the connection was replaced for the second try");

    let _ = server.command(&["REPLICAOF", "NO", "ONE"]).expect_ok();
    bench.until_it_works("k", SECOND + SLACK).await;
}
