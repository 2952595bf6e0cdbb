//! A server that accepts calls and answers none.

use std::time::Duration;

use ratekeeper_testkit::servers::RedisServer;

use super::support::*;
use crate::link::{error::NotExecuted, *};

/// Stopped under load: no call exceeds its deadline, soon calls fail at once, calls that the server executes after it
/// resumes charge nothing, and within a second calls succeed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_neither_delays_calls_nor_charges_late() {
    let server = RedisServer::start();
    let bench = Arc::new(Bench::to(&server.url()));
    bench.until_it_works("k", TIMEOUT).await;
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
                        matches!(outcome, Err(CallError::Unknown { .. } | CallError::NotExecuted { .. })),
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
        assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::BreakerOpen, .. }), "{error}");
    }
    // The deadline of one call is 50 ms; a thousand calls take less than that, apart from other load on the machine.
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());

    server.resume();
    let took = bench.until_it_works("other", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
    assert_eq!(server.command(&["GET", "k"]).integer(), before, "late runs charge nothing");
    assert_eq!(bench.counters.breaker_closed.get(), 1);
}

/// A half-open connection, which accepts writes and never answers, is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_answers_is_replaced() {
    let server = RedisServer::start();
    let proxy = ratekeeper_testkit::servers::FaultProxy::to(server.address());
    let bench = Bench::to(&proxy.url());
    bench.until_it_works("k", TIMEOUT).await;
    // From here on this connection gets no replies; a new one does.
    proxy.swallow_next_replies(1);
    let took = bench.until_it_works("k", 3 * SECOND).await;
    assert!(took < 3 * SECOND, "{took:?}");
    assert!(bench.counters.reconnects.get() >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_detected_without_traffic() {
    let server = RedisServer::start();
    let proxy = ratekeeper_testkit::servers::FaultProxy::to(server.address());
    let settings = LinkSettings { pulse: Duration::from_millis(100), ..Default::default() };
    let bench = Bench::with(&proxy.url(), settings);
    bench.until_it_works("k", TIMEOUT).await;
    proxy.swallow_next_replies(1);
    ratekeeper_testkit::servers::wait_until("a new connection", TIMEOUT, || bench.counters.reconnects.get() == 1);
    assert_eq!(bench.counters.ambiguous_calls.get(), 0, "no call is affected");
    bench.until_it_works("k", SECOND).await;
}
