//! Start: a server that starts late, a link that is opened before any runtime.

use ratekeeper_testkit::servers::{FaultProxy, RedisServer};

use super::support::*;
use crate::link::{CallError, error::NotExecuted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_late_is_connected_to_within_a_second() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    proxy.refuse_connections();
    let bench = Bench::to(&proxy.url());
    // The first call may wait for the first attempt; later ones do not wait for an absent server.
    let _ = bench.count("k").await.unwrap_err();
    let start = std::time::Instant::now();
    for _ in 0..20 {
        let error = bench.count("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::Unreachable { .. }, .. }), "{error}");
    }
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    assert_eq!(bench.counters.ambiguous_calls.get(), 0, "a call that was not sent is not ambiguous");

    proxy.pass();
    let took = bench.until_it_works("k", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
    assert!(bench.counters.dials_failed.get() > 0);
}

#[test]
fn a_link_opened_without_a_runtime_works_on_several() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    for runs in 1..=3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(bench.count_patiently("k")).unwrap(), runs);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_link_ends_its_connection_and_its_attempts() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    bench.count_patiently("k").await.unwrap();
    let clients = || server.info("connected_clients").unwrap().parse::<u32>().unwrap();
    assert_eq!(clients(), 2, "the link, and the connection of this test");
    drop(bench);
    ratekeeper_testkit::servers::wait_until("only the connection of this test", TIMEOUT, || clients() == 1);
}
