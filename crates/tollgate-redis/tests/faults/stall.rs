//! A server that is stopped: it takes every question and answers none, then wakes up and finds them all.

use std::time::{Duration, Instant};

use tollgate_core::Source;
use tollgate_redis::RedisConfig;
use tollgate_testkit::servers::RedisServer;

use crate::{
    PATIENCE, SECOND, SLACK, calls,
    checker::DEAREST,
    cycles,
    traffic::{Asker, Traffic},
};

const DEADLINE: Duration = Duration::from_millis(50);

/// Under traffic: nobody waits longer than the deadline, and a second after it wakes the server decides everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_slows_nobody() {
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

/// Without traffic at the moment it stops, every call that gets no answer reaches a server that runs it too late.
/// The script then does nothing: to the permit, what is charged is what was granted, here as well, once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopped_server_is_asked_is_charged_once_and_only_if_it_was_granted() {
    let server = RedisServer::start();
    let asker = Asker::connect(&server.url(), RedisConfig::default().deadline(DEADLINE)).await;
    for cycle in 1..=cycles() {
        // The first answer tells the server's time; calls before that could carry no deadline. And the server must know
        // the script of a take, or it has nothing that it could run late.
        asker.until_used(0).await;
        assert!(asker.take(0, 1).await.is_from(Source::Store));
        let before = asker.until_used(0).await;
        let ambiguous = asker.store.counts().ambiguous_calls;
        server.pause();
        let late = (0..40).map(|_| {
            let asker = asker.clone();
            tokio::spawn(async move { asker.take(0, DEAREST).await })
        });
        let mut granted = 0;
        for late in late.collect::<Vec<_>>() {
            let call = late.await.unwrap();
            assert!(call.is_from(Source::Local));
            granted += call.granted();
        }
        assert_eq!(asker.store.counts().breaker_opened, cycle);

        // From here on nobody even tries, or they would wait for a deadline each and be counted.
        let tried = asker.store.counts().ambiguous_calls;
        assert!(tried >= ambiguous + 5, "those who came before it opened have tried: {tried}");
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

/// Stopped from the start: no time is known, and still nobody waits longer than for the deadline.
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
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(start.elapsed() < SECOND + SLACK, "{:?}", start.elapsed());
}
