//! Waiting in several processes: one order for all of them, and one call per grant.
//!
//! The other processes run this test program; an environment variable makes them waiters that report their wake-up
//! times.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "the process reports its wake-up times on stdout")]

mod support;

use std::{
    env,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ratekeeper::{AcquireError, Limiter};
use ratekeeper_core::{Quota, Rule, Source, Span};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::RedisServer;
use support::poll_until;

const RATE: u64 = 100;
const BURST: u64 = 5;
const PROCESSES: usize = 4;
const TASKS: usize = 3;
const TURNS: usize = 8;

async fn limiter(url: &str, rule: Rule) -> Limiter<RedisStore> {
    let store = RedisStore::connect_with(url, RedisConfig::default().deadline(TIMEOUT)).await.unwrap();
    Limiter::builder().rule(rule).store(store).build().unwrap()
}

fn line() -> Rule {
    Rule::token_bucket("line", Quota::per_second(RATE).burst(BURST))
}

/// A reservation: when it was made, when it proceeds, and when the waiter woke, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Turn {
    booked: u64,
    goes: u64,
    woke: u64,
}

/// The program of the other processes. Without the environment variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_that_waits() {
    let Ok(url) = env::var(SERVER_URL) else { return };
    let limiter = limiter(&url, line()).await;
    let tasks = (0..TASKS).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let acquired = limiter.acquire("key").await.unwrap();
                let woke = Span::from_duration(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
                let decision = acquired.decision;
                assert_eq!(decision.source, Source::Store);
                let goes = decision.proceed_at();
                println!("{TURN} {} {} {}", decision.decided_at.as_micros(), goes.as_micros(), woke.as_micros());
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Starts this program as a process of waiters.
fn process(url: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_waits", "--nocapture"]).env(SERVER_URL, url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn turns_of(process: Child) -> Vec<Turn> {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let read = |line: &str| {
        // The name of the test may precede the first report on its line.
        let (_, numbers) = line.split_once(TURN)?;
        let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Some(Turn { booked: numbers[0], goes: numbers[1], woke: numbers[2] })
    };
    text.lines().filter_map(read).collect()
}

#[tokio::test]
async fn waiters_of_all_processes_are_served_in_order() {
    let server = RedisServer::start();
    let processes: Vec<Child> = (0..PROCESSES).map(|_| process(&server.url())).collect();
    let by_process: Vec<Vec<Turn>> = processes.into_iter().map(turns_of).collect();
    let mut turns: Vec<Turn> = by_process.concat();
    turns.sort();
    assert_eq!(turns.len(), PROCESSES * TASKS * TURNS);

    // First come, first served: an earlier reservation proceeds no later, in whichever process it is.
    assert!(turns.is_sorted_by_key(|turn| turn.goes));
    let others = by_process.iter().filter(|own| own.first() > Some(&turns[turns.len() / 2])).count();
    assert_eq!(others, 0, "all processes wait at the same time");

    // Every window admits at most burst + rate × window: a meter that leaks at the rate never holds more than the
    // burst.
    let (mut level, mut last) = (0, 0);
    for turn in &turns {
        level = u64::saturating_sub(level, (turn.goes - last) * RATE) + 1_000_000;
        assert!(level <= BURST * 1_000_000, "{turn:?}");
        last = turn.goes;
    }
    // Reported, not asserted: the time from the first turn to the last.
    let (first, last) = (turns[0].goes, turns[turns.len() - 1].goes);
    println!("{} turns in {} us", turns.len(), last - first);

    for turn in &turns {
        assert!(turn.woke >= turn.goes, "woke early: {turn:?}");
        assert!(turn.woke - turn.goes < micros(SLACK), "woke late: {turn:?}");
    }
    // At most one call per turn: reservations that arrive together are sent together. A call by hash of a script that
    // the server does not know is followed by one in full, at most once per task.
    assert!(calls(&server, "evalsha") <= turns.len() as u64);
    assert!(calls(&server, "eval") <= (PROCESSES * TASKS) as u64);
}

/// Calls of a command so far.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}

/// One permit in ten seconds: a wait is long compared with delays of the machine.
fn slow() -> Rule {
    Rule::token_bucket("slow", Quota::per(1, TEN_SECONDS).burst(1))
}

/// Waits until the key would be in its initial state within this time.
async fn wait_for_refund(limiter: &Limiter<RedisStore>, span: Duration) {
    let is_refunded = async || limiter.peek("key").await.unwrap().reset_after() <= span;
    poll_until("refund", TIMEOUT, is_refunded).await;
}

#[tokio::test]
async fn the_last_waiter_that_cancels_returns_its_permit() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key").await.unwrap();
    let waiter = limiter.acquire("key");
    assert!(tokio::time::timeout(SLACK, waiter).await.is_err(), "its turn is ten seconds away");
    wait_for_refund(&limiter, TEN_SECONDS).await;
    // The next reservation gets the time of the cancelled one.
    let decision = limiter.reserve_within("key", 2 * TEN_SECONDS).await.unwrap();
    assert!(decision.wait() <= TEN_SECONDS);
}

#[tokio::test]
async fn a_waiter_that_cancels_in_the_middle_moves_no_other() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key").await.unwrap();
    let before = calls(&server, "evalsha");
    let first = limiter.reserve_within("key", 5 * TEN_SECONDS).await.unwrap();
    let second = limiter.reserve_within("key", 5 * TEN_SECONDS).await.unwrap();
    let promised = second.decision().proceed_at();
    let _ = first.cancel().await.unwrap();
    let third = limiter.reserve_within("key", 5 * TEN_SECONDS).await.unwrap();
    assert_eq!(calls(&server, "evalsha"), before + 4);
    let behind = third.decision().proceed_at();
    assert!(behind >= promised + Span::from_duration(TEN_SECONDS), "the reservation of the second is kept");
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_refused_at_once_and_charges_nothing() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key").await.unwrap();
    let start = Instant::now();
    let error = limiter.acquire_within("key", Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, AcquireError::Denied { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    let reset_after = limiter.peek("key").await.unwrap().reset_after();
    assert!(reset_after <= TEN_SECONDS, "{reset_after:?}");
}

const SERVER_URL: &str = "RATEKEEPER_WAITS_AT";
const TURN: &str = "turn:";
const TEN_SECONDS: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tolerance of a wake-up on a machine under load.
const SLACK: Duration = Duration::from_millis(400);
