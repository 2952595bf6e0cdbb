//! Server time of one attempt: our script on Redisson's keys and Redisson's script, in one run.
//!
//!     scripts/interop --build
//!     cargo run --release -p ratekeeper-bench --bin redisson [-- --rounds N --calls N]
//!
//! Time is that of `EVALSHA` in `INFO commandstats`, with the same number of calls in flight on both sides: an idle server
//! takes three times as long per call. Both take turns in short rounds on one temporary server, each with a separate limiter
//! in the same state. A figure is the median of its rounds, and the ratio is the median of the ratios of the rounds.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should stop")]

use std::time::Duration;

use ratekeeper_compat::redisson::{Rate, RateType, RedissonClient, RedissonConfig, RedissonLimiter, Taken};
use ratekeeper_testkit::{
    interop::{Redisson, Release},
    servers::RedisServer,
};
use tokio::task::JoinSet;

/// The state of the limiter, and the result of every attempt.
struct Case {
    title: &'static str,
    permits: u64,
    interval: Duration,
    /// Permits taken before the measurement.
    taken: u64,
    granted: bool,
}

const CASES: [Case; 3] = [
    Case {
        title: "granted, into a growing set of grants",
        permits: 1_000_000,
        interval: Duration::from_secs(600),
        taken: 1,
        granted: true,
    },
    Case {
        title: "granted, as old grants lapse",
        permits: 1_000_000,
        interval: Duration::from_millis(20),
        taken: 1,
        granted: true,
    },
    Case {
        title: "refused, all permits taken",
        permits: 100,
        interval: Duration::from_secs(600),
        taken: 100,
        granted: false,
    },
];

/// Calls in flight, on both sides.
const IN_FLIGHT: u64 = 16;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let (rounds, calls) = (number("--rounds", 41), number("--calls", 1_000));
    let server = RedisServer::start();
    let mut java = Redisson::start(Release::Current, &server.url());
    let config = RedissonConfig::default().deadline(Duration::from_secs(10));
    let rust = RedissonClient::connect_with(&server.url(), config).await.expect("an address");
    println!(
        "microseconds of Redis per attempt of one permit; {rounds} rounds of {calls} calls each, {IN_FLIGHT} in flight\n"
    );
    println!("| | ours | Redisson's | ratio, median | from | to |");
    println!("|---|---|---|---|---|---|");
    // Loads Redisson's script, so that every measured call is an `EVALSHA`.
    prepare(&rust.rate_limiter("theirs"), &CASES[0]).await;
    let _ = java.tell("try theirs 1");
    for case in &CASES {
        let limiter = rust.rate_limiter("ours");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round is a warm-up.
        for round in 0..=rounds {
            let one = run_ours(&server, &limiter, case, calls).await;
            let other = run_theirs(&server, &mut java, &rust.rate_limiter("theirs"), case, calls).await;
            if round > 0 {
                ours.push(one);
                theirs.push(other);
            }
        }
        let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(one, other)| one / other).collect();
        let ratio = median(&mut ratios);
        let (low, high) = (ratios[ratios.len() / 10], ratios[ratios.len() * 9 / 10]);
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!("| {} | {ours:.2} | {theirs:.2} | {ratio:.2} | {low:.2} | {high:.2} |", case.title);
    }
    println!("\n\"from\" and \"to\" leave out the lowest and the highest tenth of the rounds.");
}

async fn run_ours(server: &RedisServer, limiter: &RedissonLimiter, case: &Case, calls: u64) -> f64 {
    prepare(limiter, case).await;
    reset_statistics(server);
    let mut workers = JoinSet::new();
    for worker in 0..IN_FLIGHT {
        let limiter = limiter.clone();
        let share = calls / IN_FLIGHT + u64::from(worker < calls % IN_FLIGHT);
        workers.spawn(async move {
            let mut granted = 0;
            for _ in 0..share {
                granted += u64::from(limiter.try_acquire().await.expect("a reply").is_granted());
            }
            granted
        });
    }
    let granted: u64 = workers.join_all().await.into_iter().sum();
    assert_eq!(granted, if case.granted { calls } else { 0 }, "{}", case.title);
    script_time(server, calls)
}

async fn run_theirs(
    server: &RedisServer,
    java: &mut Redisson,
    limiter: &RedissonLimiter,
    case: &Case,
    calls: u64,
) -> f64 {
    prepare(limiter, case).await;
    reset_statistics(server);
    let granted = java.tell(&format!("repeat {} 1 {calls} {IN_FLIGHT}", limiter.name()));
    assert_eq!(granted, if case.granted { calls.to_string() } else { "0".to_owned() }, "{}", case.title);
    script_time(server, calls)
}

/// Sets the same state for both.
async fn prepare(limiter: &RedissonLimiter, case: &Case) {
    let rate = Rate::new(RateType::Overall, case.permits, case.interval).expect("a sound rate");
    limiter.set_rate(&rate, Taken::Forgotten).await.expect("a rate");
    for _ in 0..case.taken {
        assert!(limiter.try_acquire().await.expect("a reply").is_granted());
    }
}

fn reset_statistics(server: &RedisServer) {
    let _ = server.command(&["CONFIG", "RESETSTAT"]).expect_ok();
}

/// Microseconds per `EVALSHA` since the last reset; checks the number of calls.
fn script_time(server: &RedisServer, calls: u64) -> f64 {
    let info = server.command(&["INFO", "commandstats"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name));
    assert_eq!(field("calls="), Some(calls.to_string().as_str()), "every call by hash, and no others: {line}");
    field("usec_per_call=").and_then(|text| text.parse().ok()).expect("a time per call")
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn number(name: &str, default: u64) -> u64 {
    let args: Vec<String> = std::env::args().collect();
    let index = args.iter().position(|arg| arg == name);
    index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
}
