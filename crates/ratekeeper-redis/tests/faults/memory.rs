//! A server without free memory and with `noeviction`.

use ratekeeper_core::Source;
use ratekeeper_testkit::servers::RedisServer;

use crate::{
    SECOND, SLACK, calls, cycles,
    traffic::{Traffic, patient},
};

/// Each rule decides at once by its `on_store_failure`, and nothing is charged. Decisions are exact again once memory
/// is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_charges_nothing_and_recovers() {
    let server = RedisServer::with().config("maxmemory-policy", "noeviction").start();
    // No call waits for this long deadline: the server refuses at once.
    let traffic = Traffic::start("out of memory", &server.url(), patient()).await;
    for _ in 0..cycles() {
        traffic.until_exact(SECOND + SLACK).await;
        traffic.calls(calls()).await;
        let _ = server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
        traffic.calls(calls() / 4).await;
        let before = traffic.so_far().len();
        traffic.calls(calls()).await;
        let without = traffic.so_far().split_off(before);
        assert!(without.iter().all(|call| call.is_from(Source::Local)));
        assert!(without.iter().all(|call| call.completed - call.invoked < SECOND));
        let _ = server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
        traffic.until_exact(SECOND + SLACK).await;
    }
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert_eq!(books.counts.ambiguous_calls, 0);
    assert_eq!(tally.charged, tally.granted + tally.granted_here, "local grants are charged once memory is free");
}
