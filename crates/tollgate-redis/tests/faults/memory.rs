//! A server without memory to spare, told not to evict anything.

use tollgate_core::Source;
use tollgate_testkit::servers::RedisServer;

use crate::{
    SECOND, SLACK, calls, cycles,
    traffic::{Traffic, patient},
};

/// Each rule answers by its own word, at once; nothing is charged; and when there is room again, all is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_charges_nothing_and_recovers() {
    let server = RedisServer::with().config("maxmemory-policy", "noeviction").start();
    // However long the deadline, nobody waits for it: the server says no at once.
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
    assert_eq!(tally.charged, tally.granted + tally.granted_here, "local grants are charged, once it has room");
}
