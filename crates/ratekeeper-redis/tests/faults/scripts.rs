//! Flushes of the script cache, on a server that keeps its data.

use ratekeeper_testkit::servers::RedisServer;

use crate::{
    calls, cycles,
    traffic::{Traffic, patient},
};

/// A call that finds the script missing sends it in full. No call fails, and nothing is charged twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_scripts_are_sent_again_without_errors() {
    let server = RedisServer::start();
    let traffic = Traffic::start("script flush", &server.url(), patient()).await;
    for _ in 0..5 * cycles() {
        traffic.calls(calls() / 4).await;
        let _ = server.command(&["SCRIPT", "FLUSH"]).expect_ok();
    }
    traffic.calls(calls()).await;
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert_eq!(tally.exact, books.requests);
    assert_eq!(tally.charged, tally.granted);
    assert!(books.counts.script_reloads >= 5 * cycles());
}
