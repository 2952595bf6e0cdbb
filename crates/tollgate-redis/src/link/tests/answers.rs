//! Scripts that the server has forgotten, errors that it sends, and the time it tells.

use redis::cmd;
use tollgate_core::Micros;
use tollgate_testkit::servers::RedisServer;

use super::support::*;
use crate::link::{error::NotRun, *};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_script_is_sent_in_full_once() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    for runs in 1..=3 {
        assert_eq!(bench.count_patiently("k").await, Ok(runs));
    }
    assert_eq!(bench.counters.script_reloads.get(), 1, "the first call found nothing");
    let _ = server.command(&["SCRIPT", "FLUSH"]).expect_ok();
    for runs in 4..=6 {
        assert_eq!(bench.count_patiently("k").await, Ok(runs));
    }
    assert_eq!(bench.counters.script_reloads.get(), 2);
    let commands = server.command(&["INFO", "commandstats"]).text();
    assert!(commands.contains("cmdstat_eval:calls=2,") && !commands.contains("cmdstat_script|load"), "{commands}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_under_the_key_already_is_told_loudly() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    let _ = server.command(&["LPUSH", "k", "x"]).expect_ok();
    let error = bench.count_patiently("k").await.unwrap_err();
    assert!(matches!(&error, CallError::Refused { code, .. } if code == "WRONGTYPE"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_told_from_a_dead_one() {
    let server = RedisServer::with().config("maxmemory-policy", "noeviction").start();
    let bench = Bench::patient(&server.url());
    assert_eq!(bench.count_patiently("k").await, Ok(1));
    let _ = server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    for _ in 0..10 {
        let error = bench.count_patiently("k").await.unwrap_err();
        assert!(matches!(error, CallError::NotRun { why: NotRun::OutOfMemory, .. }), "{error}");
    }
    let _ = server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(bench.count_patiently("k").await, Ok(2));
    assert_eq!(bench.counters.breaker_opened.get(), 0, "a server that answers is not sick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_clock_is_known_from_the_first_word() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    bench.count_patiently("k").await.unwrap();
    let asked = bench.link.server_now();
    let told = server.command(&["TIME"]);
    let told = Micros::from_secs(told.items()[0].integer() as u64) + Micros(told.items()[1].integer() as u64);
    let after = bench.link.server_now();
    // The estimate may be off by half a round trip.
    let slack = Micros::from_millis(100);
    assert!(asked <= told + slack && told <= after + slack, "{asked:?} {told:?} {after:?}");
    let clock = bench.link.nodes()[0].clock;
    assert!(clock.is_some_and(|(_, doubt)| doubt < SLACK), "{clock:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_commands_go_the_same_way() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    let deadline = || Instant::now() + PATIENCE;
    let mut set = cmd("SET");
    set.arg("k").arg("v").arg("PX").arg(60_000);
    assert_eq!(bench.link.command(Whom::Key(b"k"), &set, deadline()).await, Ok(Value::Okay));
    let mut get = cmd("GET");
    get.arg("k");
    let place = bench.link.nodes()[0].place.clone();
    for whom in [Whom::Key(b"k"), Whom::Any, Whom::Node(&place)] {
        assert_eq!(bench.link.command(whom, &get, deadline()).await, Ok(Value::BulkString(b"v".into())));
    }
    assert!(bench.link.share_a_slot(&[b"a", b"b"]));
}
