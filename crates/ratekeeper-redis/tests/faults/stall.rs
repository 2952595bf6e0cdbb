//! Stopped server: it accepts calls without answering, and executes them after it resumes.

use std::time::{Duration, Instant};

use ratekeeper_core::Source;
use ratekeeper_redis::RedisConfig;
use ratekeeper_testkit::servers::RedisServer;

use crate::{
    SECOND, SLACK, TIMEOUT, calls,
    checker::DEAREST,
    cycles,
    traffic::{Asker, Traffic},
};

const DEADLINE: Duration = Duration::from_millis(50);

/// Under traffic, no call exceeds its deadline, and a second after the server resumes it decides everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_delays_no_call() {
    let server = RedisServer::start();
    let traffic = Traffic::start("stopped", &server.url(), RedisConfig::default().deadline(DEADLINE)).await;
    for _ in 0..cycles() {
        traffic.calls(calls()).await;
        server.pause();
        traffic.calls(2 * calls()).await;
        server.resume();
        traffic.until_exact(SECOND + SLACK).await;
    }
    let books = traffic.finish().await;
    let tally = books.check(&[&server]);
    assert!(tally.slowest < DEADLINE + SLACK, "{:?}", tally.slowest);
    assert!(books.counts.breaker_opened >= cycles());
}

/// Without traffic when it stops, every unanswered call reaches a server that runs it too late. The script then does
/// nothing: the charged permits are exactly the granted ones, including local grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopped_server_is_asked_is_charged_once_and_only_if_it_was_granted() {
    stop_while_asked(false).await;
}

/// The same for merged calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_calls_to_a_stopped_server_are_charged_once_and_only_if_they_were_granted() {
    stop_while_asked(true).await;
}

async fn stop_while_asked(merging: bool) {
    let server = RedisServer::start();
    let asker = Asker::connect(&server.url(), RedisConfig::default().deadline(DEADLINE).merging(merging)).await;
    for cycle in 1..=cycles() {
        // The first reply carries the server's time; without it calls carry no deadline. The server must also know the
        // script of a take, or it has nothing to run late.
        asker.until_used(0).await;
        assert!(asker.take(0, 1).await.is_from(Source::Store));
        let before = asker.until_used(0).await;
        let ambiguous = asker.store.counts().ambiguous_calls;
        server.pause();
        let mut granted = 0;
        // Merged calls are few, and between attempts to charge the key is decided locally, so the breaker may stay
        // closed.
        for round in 1.. {
            let late = (0..40).map(|_| {
                let asker = asker.clone();
                tokio::spawn(async move { asker.take(0, DEAREST).await })
            });
            for late in late.collect::<Vec<_>>() {
                let call = late.await.unwrap();
                assert!(call.is_from(Source::Local));
                granted += call.granted();
            }
            let is_open = asker.store.counts().breaker_opened == cycle;
            assert!(merging || is_open, "the breaker stays closed: {:?}", asker.store.counts());
            if is_open || round == 4 {
                break;
            }
        }
        if merging {
            server.resume();
            assert_eq!(asker.until_used(0).await, before + granted, "late runs charge nothing");
            continue;
        }

        // No call is sent from here on; otherwise each would reach its deadline and be counted.
        let tried = asker.store.counts().ambiguous_calls;
        assert!(tried >= ambiguous + 5, "calls before it opened were sent: {tried}");
        let start = Instant::now();
        for _ in 0..calls() {
            let call = asker.take(0, DEAREST).await;
            assert!(call.is_from(Source::Local));
            granted += call.granted();
        }
        assert_eq!(asker.store.counts().ambiguous_calls, tried);
        assert!(start.elapsed() < SLACK + Duration::from_millis(calls()), "{:?}", start.elapsed());

        server.resume();
        assert_eq!(asker.until_used(0).await, before + granted, "late runs charge nothing, local grants are charged");
    }
}

/// Stopped before the first call: the server's time is unknown, and still no call exceeds its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_stopped_before_we_came_is_waited_for_no_longer() {
    let server = RedisServer::start();
    server.pause();
    let asker = Asker::connect(&server.url(), RedisConfig::default().deadline(DEADLINE)).await;
    for _ in 0..20 {
        let call = asker.take(0, 1).await;
        assert!(call.is_from(Source::Local));
        assert!(call.completed - call.invoked < DEADLINE + SLACK);
    }
    server.resume();
    let start = Instant::now();
    while !asker.take(0, 1).await.is_from(Source::Store) {
        assert!(start.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(start.elapsed() < SECOND + SLACK, "{:?}", start.elapsed());
}
