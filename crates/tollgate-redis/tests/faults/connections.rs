//! Connections that the server ends in the middle of things.

use tollgate_redis::{LinkSettings, RedisConfig};
use tollgate_testkit::servers::RedisServer;

use crate::{PATIENCE, SECOND, SLACK, calls, cycles, traffic::Traffic};

/// Calls under way may have been carried out or not: their fate is unknown, they are counted and never sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_are_made_again_and_no_call_is() {
    let server = RedisServer::start();
    let traffic = Traffic::start("client kill", &server.url(), RedisConfig::default()).await;
    for _ in 0..5 * cycles() {
        traffic.calls(calls() / 4).await;
        let _ = server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect_ok();
        traffic.until_exact(SECOND + SLACK).await;
    }
    let books = traffic.finish().await;
    books.check(&[&server]);
    assert!(books.counts.reconnects >= cycles());
}

/// The same with time enough, and a breaker that does not mind: those who come while there is no connection wait for the
/// next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_calls_under_way_are_lost_with_a_connection() {
    let server = RedisServer::start();
    let mut link = LinkSettings::default();
    (link.breaker.failures_in_a_row, link.breaker.calls_to_judge) = (u32::MAX, u32::MAX);
    let redial_max = link.redial_max;
    let config = RedisConfig::default().link(link).deadline(PATIENCE);
    let traffic = Traffic::start("client kill, patient", &server.url(), config).await;
    for _ in 0..cycles() {
        // A connection that has not held for long is not replaced at once: the server may be throwing everybody out.
        traffic.calls_for(redial_max + SLACK).await;
        let _ = server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect_ok();
    }
    traffic.calls(calls()).await;
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert_eq!(books.requests - tally.exact, books.counts.ambiguous_calls);
}
