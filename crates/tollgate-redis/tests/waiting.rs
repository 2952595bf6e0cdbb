//! Waiting for a turn, in several processes at once: one line for all of them, and one call per turn.
//!
//! The other processes are this test program again, told by its environment to wait in line and say when it woke.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "that is how it tells when it woke")]

use std::{
    env,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tollgate::{AcquireError, Limiter};
use tollgate_core::{Micros, Quota, Rule, Source};
use tollgate_redis::{RedisConfig, RedisStore};
use tollgate_testkit::servers::RedisServer;

const RATE: u64 = 100;
const BURST: u64 = 5;
const PROCESSES: usize = 4;
const TASKS: usize = 3;
const TURNS: usize = 8;

async fn limiter(url: &str, rule: Rule) -> Limiter<RedisStore> {
    let store = RedisStore::connect_with(url, RedisConfig::default().deadline(PATIENCE)).await.unwrap();
    Limiter::builder().rule(rule).store(store).build().unwrap()
}

fn line() -> Rule {
    Rule::token_bucket("line", Quota::per_second(RATE).burst(BURST))
}

/// A turn: when it was booked, for when, and when the waiter woke; all in microseconds since 1970.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Turn {
    booked: u64,
    goes: u64,
    woke: u64,
}

/// The other processes. As a test of its own it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_that_waits_in_line() {
    let Ok(url) = env::var(TOLD_WHERE) else { return };
    let limiter = limiter(&url, line()).await;
    let tasks = (0..TASKS).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let acquired = limiter.acquire("key", 1).await.unwrap();
                let woke = Micros::from_duration(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
                let decision = acquired.decision;
                assert_eq!(decision.source, Source::Store);
                let goes = decision.decided_at + decision.wait();
                println!("{TURN} {} {} {}", decision.decided_at.0, goes.0, woke.0);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Starts this program again as one that waits.
fn process(url: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_waits_in_line", "--nocapture"]).env(TOLD_WHERE, url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn turns_of(process: Child) -> Vec<Turn> {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let read = |line: &str| {
        // The name of the test may stand before the first.
        let (_, numbers) = line.split_once(TURN)?;
        let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Some(Turn { booked: numbers[0], goes: numbers[1], woke: numbers[2] })
    };
    text.lines().filter_map(read).collect()
}

#[tokio::test]
async fn processes_wait_in_one_line() {
    let server = RedisServer::start();
    let processes: Vec<Child> = (0..PROCESSES).map(|_| process(&server.url())).collect();
    let by_process: Vec<Vec<Turn>> = processes.into_iter().map(turns_of).collect();
    let mut turns: Vec<Turn> = by_process.concat();
    turns.sort();
    assert_eq!(turns.len(), PROCESSES * TASKS * TURNS);

    // First come, first served: whoever booked earlier goes no later, whichever process it is in.
    assert!(turns.is_sorted_by_key(|turn| turn.goes));
    let strangers = by_process.iter().filter(|own| own.first() > Some(&turns[turns.len() / 2])).count();
    assert_eq!(strangers, 0, "they did wait at the same time");

    // In every window no more than the burst and what the rate frees: a meter that leaks never holds more.
    let (mut level, mut last) = (0, 0);
    for turn in &turns {
        level = u64::saturating_sub(level, (turn.goes - last) * RATE) + 1_000_000;
        assert!(level <= BURST * 1_000_000, "{turn:?}");
        last = turn.goes;
    }
    // And no fewer: nobody waits longer than the others make necessary.
    let (first, last) = (turns[0].goes, turns[turns.len() - 1].goes);
    println!("{} turns in {} us", turns.len(), last - first);

    for turn in &turns {
        assert!(turn.woke >= turn.goes, "woke early: {turn:?}");
        assert!(turn.woke - turn.goes < micros(SLACK), "woke late: {turn:?}");
    }
    // One call per turn. A call by hash that the server does not know is followed by one in full, once per process at most.
    assert_eq!(calls(&server, "evalsha"), turns.len() as u64);
    assert!(calls(&server, "eval") <= (PROCESSES * TASKS) as u64);
}

/// How often a command was called so far.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}

/// One permit in ten seconds, so that a wait is long beside anything the machine does.
fn slow() -> Rule {
    Rule::token_bucket("slow", Quota::per(1, TEN_SECONDS).burst(1))
}

/// Looks until the key rests within this time.
async fn until_rests_within(limiter: &Limiter<RedisStore>, span: Duration) {
    let start = Instant::now();
    while Duration::from(limiter.peek("key").await.unwrap().reset_after()) > span {
        assert!(start.elapsed() < PATIENCE, "nothing was given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn whoever_goes_away_as_the_last_in_line_gives_the_permit_back() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key", 1).await.unwrap();
    let waiter = limiter.acquire("key", 1);
    assert!(tokio::time::timeout(SLACK, waiter).await.is_err(), "its turn is ten seconds away");
    until_rests_within(&limiter, TEN_SECONDS).await;
    // As if it had never been there: the next one gets its place.
    let told = limiter.reserve_within("key", 1, 2 * TEN_SECONDS).await.unwrap();
    assert!(Duration::from(told.wait()) <= TEN_SECONDS);
}

#[tokio::test]
async fn whoever_goes_away_from_the_middle_moves_nobody() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key", 1).await.unwrap();
    let before = calls(&server, "evalsha");
    let first = limiter.reserve_within("key", 1, 5 * TEN_SECONDS).await.unwrap();
    let second = limiter.reserve_within("key", 1, 5 * TEN_SECONDS).await.unwrap();
    let goes = |wait: Micros, at: Micros| at + wait;
    let promised = goes(second.wait(), second.decision().decided_at);
    let _ = first.cancel().await.unwrap();
    let third = limiter.reserve_within("key", 1, 5 * TEN_SECONDS).await.unwrap();
    assert_eq!(calls(&server, "evalsha"), before + 4);
    let behind = goes(third.wait(), third.decision().decided_at);
    assert!(behind >= promised + Micros::from_duration(TEN_SECONDS), "the promise to the second still stands");
}

#[tokio::test]
async fn whoever_cannot_wait_so_long_hears_at_once_and_is_charged_nothing() {
    let server = RedisServer::start();
    let limiter = limiter(&server.url(), slow()).await;
    limiter.acquire("key", 1).await.unwrap();
    let start = Instant::now();
    let error = limiter.acquire_timeout("key", 1, Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TooLong { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    let rests = limiter.peek("key").await.unwrap().reset_after();
    assert!(Duration::from(rests) <= TEN_SECONDS, "{rests}");
}

const TOLD_WHERE: &str = "TOLLGATE_WAITS_AT";
const TURN: &str = "turn:";
const TEN_SECONDS: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(10);
/// What a machine that also compiles may add to a wake-up.
const SLACK: Duration = Duration::from_millis(400);
