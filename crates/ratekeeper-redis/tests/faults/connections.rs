//! Connections that the server closes with calls in flight.

use ratekeeper_redis::{LinkSettings, RedisConfig};
use ratekeeper_testkit::servers::RedisServer;

use crate::{SECOND, SLACK, TIMEOUT, calls, cycles, traffic::Traffic};

/// Calls in flight may have been executed or not. Their outcome is unknown: they are counted and not sent again.
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

/// The same with a long deadline and a breaker that never opens: calls without a connection wait for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_calls_under_way_are_lost_with_a_connection() {
    let server = RedisServer::start();
    let mut link = LinkSettings::default();
    (link.breaker.failures_in_a_row, link.breaker.calls_to_judge) = (u32::MAX, u32::MAX);
    let redial_max = link.redial_max;
    let config = RedisConfig::default().link(link).deadline(TIMEOUT);
    let traffic = Traffic::start("client kill, patient", &server.url(), config).await;
    for _ in 0..cycles() {
        // A short-lived connection is not replaced at once, because the server may be closing all connections.
        traffic.calls_for(redial_max + SLACK).await;
        // A charge lost with its connection is retried after a pause; until then its key is decided locally.
        traffic.until_charged().await;
        let _ = server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect_ok();
    }
    traffic.calls(calls()).await;
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert_eq!(books.requests - tally.exact, books.counts.ambiguous_calls);
}
