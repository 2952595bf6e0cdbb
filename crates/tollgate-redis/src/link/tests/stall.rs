//! A server that takes every question and answers none.

use std::time::Duration;

use tollgate_testkit::servers::RedisServer;

use super::support::*;
use crate::link::{error::NotRun, *};

/// Stopped under load: nobody waits longer than the deadline; soon nobody waits at all; what the server finds when it
/// wakes up is too late to count; and within a second everything is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_slows_nobody_and_charges_nobody_late() {
    let server = RedisServer::start();
    let bench = Arc::new(Bench::to(&server.url()));
    bench.until_it_works("k", PATIENCE).await;
    let before = server.command(&["GET", "k"]).integer();

    server.pause();
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    let start = Instant::now();
                    let outcome = bench.count("k").await;
                    let took = start.elapsed();
                    assert!(took < Duration::from_millis(50) + SLACK, "{took:?}");
                    assert!(
                        matches!(outcome, Err(CallError::Unknown { .. } | CallError::NotRun { .. })),
                        "{outcome:?}"
                    );
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(bench.counters.ambiguous_calls.get() >= 5);
    assert_eq!(bench.counters.breaker_opened.get(), 1);

    let start = Instant::now();
    for _ in 0..1000 {
        let error = bench.count("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotRun { why: NotRun::BreakerOpen, .. }), "{error}");
    }
    // One call's deadline would be 50 ms; a thousand take less than that, plus what else runs on the machine.
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());

    server.resume();
    let took = bench.until_it_works("other", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
    assert_eq!(server.command(&["GET", "k"]).integer(), before, "late runs charge nothing");
    assert_eq!(bench.counters.breaker_closed.get(), 1);
}

/// The connection is half-open: sent to for ever, never heard from. It is replaced although nobody closes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_answers_is_replaced() {
    let server = RedisServer::start();
    let proxy = tollgate_testkit::servers::FaultProxy::to(server.address());
    let bench = Bench::to(&proxy.url());
    bench.until_it_works("k", PATIENCE).await;
    // From here on this connection is deaf; a new one would be sound.
    proxy.swallow_next_replies(1);
    let took = bench.until_it_works("k", 3 * SECOND).await;
    assert!(took < 3 * SECOND, "{took:?}");
    assert!(bench.counters.reconnects.get() >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_dies_while_nobody_calls_is_found_out() {
    let server = RedisServer::start();
    let proxy = tollgate_testkit::servers::FaultProxy::to(server.address());
    let settings = LinkSettings { pulse: Duration::from_millis(100), ..Default::default() };
    let bench = Bench::with(&proxy.url(), settings);
    bench.until_it_works("k", PATIENCE).await;
    proxy.swallow_next_replies(1);
    tollgate_testkit::servers::wait_until("a new connection", PATIENCE, || bench.counters.reconnects.get() == 1);
    assert_eq!(bench.counters.ambiguous_calls.get(), 0, "no caller had to find out");
    bench.until_it_works("k", SECOND).await;
}
