//! Connections that end under way.

use std::time::Duration;

use tollgate_testkit::servers::{FaultProxy, RedisServer};

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

/// Killed under load: every call is answered, or unknown, or surely not run; and the server's count agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_the_books_balance_through_resets() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Arc::new(Bench::to(&proxy.url()));
    bench.until_it_works("warm", PATIENCE).await;

    let callers: Vec<_> = (0..16)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let (mut answered, mut unknown) = (0, 0);
                for _ in 0..200 {
                    match bench.count_patiently("k").await {
                        Ok(_) => answered += 1,
                        Err(CallError::Unknown { .. }) => unknown += 1,
                        Err(CallError::NotRun { .. }) => tokio::time::sleep(Duration::from_millis(2)).await,
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

/// However many calls were on it: the server is well, and those who come next are not turned away for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_one_failure() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = Arc::new(Bench::to(&proxy.url()));
    bench.until_it_works("warm", PATIENCE).await;
    proxy.swallow_replies();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.count_patiently("k").await })
        })
        .collect();
    let start = Instant::now();
    while proxy.replies_swallowed() < 64 {
        assert!(start.elapsed() < PATIENCE, "64 calls do not get there");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    proxy.pass();
    proxy.reset();
    for caller in callers {
        assert!(matches!(caller.await.unwrap(), Err(CallError::Unknown { .. })));
    }
    bench.until_it_works("k", SECOND + SLACK).await;
    assert_eq!(bench.counters.breaker_opened.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_breaks_off_is_no_answer() {
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
async fn a_restarted_server_is_found_again_within_a_second() {
    let server = RedisServer::start();
    let bench = Bench::to(&server.url());
    bench.until_it_works("k", PATIENCE).await;
    server.kill();
    for _ in 0..50 {
        let _ = bench.count("k").await.unwrap_err();
    }
    server.restart_empty();
    let took = bench.until_it_works("k", SECOND + SLACK).await;
    assert!(took < SECOND + SLACK, "{took:?}");
}
