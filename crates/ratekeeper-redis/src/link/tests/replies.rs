//! Missing scripts, error replies, and the time in replies.

use ratekeeper_core::{Span, Timestamp};
use ratekeeper_testkit::servers::RedisServer;
use redis::cmd;

use super::support::*;
use crate::link::{error::NotExecuted, *};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_script_is_sent_in_full_once() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    for runs in 1..=3 {
        assert_eq!(bench.count_patiently("k").await, Ok(runs));
    }
    assert_eq!(bench.counters.script_reloads.get(), 1, "the first call finds no script");
    let _ = server.command(&["SCRIPT", "FLUSH"]).expect_ok();
    for runs in 4..=6 {
        assert_eq!(bench.count_patiently("k").await, Ok(runs));
    }
    assert_eq!(bench.counters.script_reloads.get(), 2);
    let commands = server.command(&["INFO", "commandstats"]).text();
    assert!(commands.contains("cmdstat_eval:calls=2,") && !commands.contains("cmdstat_script|load"), "{commands}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_another_type_is_an_error() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    let _ = server.command(&["LPUSH", "k", "x"]).expect_ok();
    let error = bench.count_patiently("k").await.unwrap_err();
    assert!(matches!(&error, CallError::Refused { code, .. } if code == "WRONGTYPE"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_is_distinguished_from_unreachable() {
    let server = RedisServer::with().config("maxmemory-policy", "noeviction").start();
    let bench = Bench::patient(&server.url());
    assert_eq!(bench.count_patiently("k").await, Ok(1));
    let _ = server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    for _ in 0..10 {
        let error = bench.count_patiently("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::OutOfMemory, .. }), "{error}");
    }
    let _ = server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(bench.count_patiently("k").await, Ok(2));
    assert_eq!(bench.counters.breaker_opened.get(), 0, "a server that answers keeps the breaker closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_clock_is_known_after_the_handshake() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    bench.count_patiently("k").await.unwrap();
    let asked = bench.link.server_now();
    let time = server.command(&["TIME"]);
    let time =
        Timestamp::from_secs(time.items()[0].integer() as u64) + Span::from_micros(time.items()[1].integer() as u64);
    let after = bench.link.server_now();
    // The error bound is half a round trip.
    let slack = Span::from_millis(100);
    assert!(asked <= time + slack && time <= after + slack, "{asked:?} {time:?} {after:?}");
    let clock = bench.link.nodes()[0].clock;
    assert!(clock.is_some_and(|(_, error)| error < SLACK), "{clock:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_commands_are_dispatched_like_scripts() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    let deadline = || Instant::now() + TIMEOUT;
    let mut set = cmd("SET");
    set.arg("k").arg("v").arg("PX").arg(60_000);
    assert_eq!(bench.link.command(Destination::Key(b"k"), &set, deadline()).await, Ok(Value::Okay));
    let mut get = cmd("GET");
    get.arg("k");
    let address = bench.link.nodes()[0].address.clone();
    for whom in [Destination::Key(b"k"), Destination::Any, Destination::Node(&address)] {
        assert_eq!(bench.link.command(whom, &get, deadline()).await, Ok(Value::BulkString(b"v".into())));
    }
    assert!(bench.link.share_a_slot(&[b"a", b"b"]));
}
