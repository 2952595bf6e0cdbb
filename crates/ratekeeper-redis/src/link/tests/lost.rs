//! Connections lost with calls in flight.

use std::time::Duration;

use ratekeeper_testkit::servers::{FaultProxy, RedisServer};
use tokio::task::JoinHandle;

use super::support::*;
use crate::link::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_is_replaced_and_nothing_runs_twice() {
    let server = RedisServer::start();
    let bench = Bench::to(&server.url());
    let mut answered = 0;
    for _ in 0..5 {
        assert!(bench.count_patiently("k").await.is_ok());
        answered += 1;
        let _ = server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect_ok();
        bench.until_it_works("k", SECOND + SLACK).await;
        answered += 1;
    }
    let runs = server.command(&["GET", "k"]).integer();
    let unknown = i64::try_from(bench.counters.ambiguous_calls.get()).unwrap();
    assert!((answered..=answered + unknown).contains(&runs), "{answered} answered, {unknown} unknown, {runs} runs");
    assert!(bench.counters.reconnects.get() >= 5);
}

/// Connections killed under load: every call was executed, was not, or may have been, and the server's count agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_agree_with_the_servers_count_under_resets() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Arc::new(Bench::to(&proxy.url()));
    bench.until_it_works("warm", TIMEOUT).await;

    let callers: Vec<_> = (0..16)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let (mut answered, mut unknown) = (0, 0);
                for _ in 0..200 {
                    match bench.count_patiently("k").await {
                        Ok(_) => answered += 1,
                        Err(CallError::Unknown { .. }) => unknown += 1,
                        Err(CallError::NotExecuted { .. }) => tokio::time::sleep(Duration::from_millis(2)).await,
                        Err(refused) => panic!("{refused}"),
                    }
                }
                (answered, unknown)
            })
        })
        .collect();
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(15)).await;
        if round % 2 == 0 { proxy.reset() } else { proxy.cut() }
    }
    let (mut answered, mut unknown) = (0, 0);
    for caller in callers {
        let (more_answered, more_unknown) = caller.await.unwrap();
        answered += more_answered;
        unknown += more_unknown;
    }
    let runs = server.command(&["GET", "k"]).integer();
    assert!((answered..=answered + unknown).contains(&runs), "{answered} answered, {unknown} unknown, {runs} runs");
    assert_eq!(bench.counters.ambiguous_calls.get(), u64::try_from(unknown).unwrap());
}

/// A lost connection counts as one failure, however many calls were in flight: the breaker stays closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_one_failure() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Arc::new(Bench::to(&proxy.url()));
    bench.until_it_works("warm", TIMEOUT).await;
    for caller in lose_a_connection(&proxy, &bench).await {
        assert!(matches!(caller.await.unwrap(), (Err(CallError::Unknown { .. }), _)));
    }
    bench.until_it_works("k", SECOND + SLACK).await;
    assert_eq!(bench.counters.breaker_opened.get(), 0);
}

/// The first call that fails marks the connection, so that the next call of its caller waits for another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_sent_on_a_connection_that_has_failed_one() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Arc::new(Bench::to(&proxy.url()));
    for _ in 0..5 {
        bench.until_it_works("warm", TIMEOUT).await;
        for caller in lose_a_connection(&proxy, &bench).await {
            let (_, next) = caller.await.unwrap();
            assert!(!matches!(next, Err(CallError::Unknown { .. })), "{next:?}");
        }
    }
}

type CountResult = Result<i64, CallError>;

/// Loses a connection with 64 calls in flight. Each caller makes another call as soon as the first has failed.
async fn lose_a_connection(proxy: &FaultProxy, bench: &Arc<Bench>) -> Vec<JoinHandle<(CountResult, CountResult)>> {
    let swallowed = proxy.replies_swallowed();
    proxy.swallow_replies();
    let callers = (0..64).map(|_| {
        let bench = bench.clone();
        tokio::spawn(async move { (bench.count_patiently("k").await, bench.count_patiently("k").await) })
    });
    let callers = callers.collect();
    let start = Instant::now();
    while proxy.replies_swallowed() < swallowed + 64 {
        assert!(start.elapsed() < TIMEOUT, "64 calls do not arrive");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    proxy.pass();
    proxy.reset();
    callers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_reply_is_an_unknown_outcome() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Bench::to(&proxy.url());
    assert_eq!(bench.count_patiently("k").await, Ok(1));
    proxy.cut_next_reply_after(3);
    let error = bench.count_patiently("k").await.unwrap_err();
    assert!(matches!(error, CallError::Unknown { .. }), "{error}");
    bench.until_it_works("other", SECOND + SLACK).await;
    assert_eq!(server.command(&["GET", "k"]).integer(), 2, "it ran, and was not sent again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_reconnected_to_within_a_second() {
    let server = RedisServer::start();
    let bench = Bench::to(&server.url());
    bench.until_it_works("k", TIMEOUT).await;
    server.kill();
    for _ in 0..50 {
        let _ = bench.count("k").await.unwrap_err();
    }
    server.restart_empty();
    let took = bench.until_it_works("k", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
}
