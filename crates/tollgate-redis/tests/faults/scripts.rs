//! A server that forgets its scripts, though not its data.

use tollgate_testkit::servers::RedisServer;

use crate::{
    calls, cycles,
    traffic::{Traffic, patient},
};

/// Whoever meets the gap sends the script in full; nobody notices, and nobody is charged twice for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_sent_again_and_nobody_notices() {
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
