//! What one attempt costs Redis: our script on Redisson's keys beside Redisson's own, run by Redisson, in one run.
//!
//!     scripts/interop --build
//!     cargo run --release -p tollgate-bench --bin redisson [-- --rounds N --calls N]
//!
//! Time is what `INFO commandstats` counts for `EVALSHA`, as both sides call their scripts, with as many calls under way at
//! any time: a server that dozes off between calls takes three times as long for each. They take turns in short rounds on
//! one throw-away server, each with a limiter of its own in the same state; a figure is the median of its rounds, and the
//! ratio the median of each round's ratio.

#![allow(clippy::print_stdout, reason = "the report is the point")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should stop")]

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_redis::redisson::{Rate, RateType, RedissonClient, RedissonConfig, RedissonLimiter, Taken};
use tollgate_testkit::{
    interop::{Redisson, Release},
    servers::RedisServer,
};

/// How a limiter is set up, and what then becomes of every attempt.
struct Case {
    title: &'static str,
    permits: u64,
    interval: Duration,
    /// Taken before the measuring begins.
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

/// Calls under way, on either side.
const AT_ONCE: u64 = 16;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let (rounds, calls) = (number("--rounds", 41), number("--calls", 1_000));
    let server = RedisServer::start();
    let mut java = Redisson::start(Release::Current, &server.url());
    let config = RedissonConfig::default().deadline(Duration::from_secs(10));
    let rust = RedissonClient::connect_with(&server.url(), config).await.expect("an address");
    println!(
        "microseconds of Redis per attempt of one permit; {rounds} rounds of {calls} calls each, {AT_ONCE} at once\n"
    );
    println!("| | ours | Redisson's | ratio, median | from | to |");
    println!("|---|---|---|---|---|---|");
    // The server learns Redisson's script, so that every call that counts is by its hash.
    prepare(&rust.rate_limiter("theirs"), &CASES[0]).await;
    let _ = java.tell("try theirs 1");
    for case in &CASES {
        let limiter = rust.rate_limiter("ours");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round warms both up, and does not count.
        for round in 0..=rounds {
            let one = run_ours(&server, &limiter, case, calls).await;
            let other = run_theirs(&server, &mut java, &rust.rate_limiter("theirs"), case, calls).await;
            if round > 0 {
                ours.push(one);
                theirs.push(other);
            }
        }
        let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(one, other)| one / other).collect();
        let middle = median(&mut ratios);
        let (low, high) = (ratios[ratios.len() / 10], ratios[ratios.len() * 9 / 10]);
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!("| {} | {ours:.2} | {theirs:.2} | {middle:.2} | {low:.2} | {high:.2} |", case.title);
    }
    println!("\n\"from\" and \"to\" leave out the lowest and the highest tenth of the rounds.");
}

async fn run_ours(server: &RedisServer, limiter: &RedissonLimiter, case: &Case, calls: u64) -> f64 {
    prepare(limiter, case).await;
    reset_statistics(server);
    let mut askers = JoinSet::new();
    for asker in 0..AT_ONCE {
        let limiter = limiter.clone();
        let share = calls / AT_ONCE + u64::from(asker < calls % AT_ONCE);
        askers.spawn(async move {
            let mut granted = 0;
            for _ in 0..share {
                granted += u64::from(limiter.try_acquire().await.expect("an answer").is_granted());
            }
            granted
        });
    }
    let granted: u64 = askers.join_all().await.into_iter().sum();
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
    let granted = java.tell(&format!("repeat {} 1 {calls} {AT_ONCE}", limiter.name()));
    assert_eq!(granted, if case.granted { calls.to_string() } else { "0".to_owned() }, "{}", case.title);
    script_time(server, calls)
}

/// The same state for both, by the same hand.
async fn prepare(limiter: &RedissonLimiter, case: &Case) {
    let rate = Rate::new(RateType::Overall, case.permits, case.interval).expect("a sound rate");
    limiter.set_rate(&rate, Taken::Forgotten).await.expect("a rate");
    for _ in 0..case.taken {
        assert!(limiter.try_acquire().await.expect("an answer").is_granted());
    }
}

fn reset_statistics(server: &RedisServer) {
    let _ = server.command(&["CONFIG", "RESETSTAT"]).expect_ok();
}

/// Microseconds per `EVALSHA` since then; there must have been as many as asked for.
fn script_time(server: &RedisServer, calls: u64) -> f64 {
    let info = server.command(&["INFO", "commandstats"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name));
    assert_eq!(field("calls="), Some(calls.to_string().as_str()), "every call by hash, and nobody else's: {line}");
    field("usec_per_call=").and_then(|text| text.parse().ok()).expect("a time per call")
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn number(name: &str, default: u64) -> u64 {
    let args: Vec<String> = std::env::args().collect();
    let place = args.iter().position(|arg| arg == name);
    place.and_then(|place| args.get(place + 1)?.parse().ok()).unwrap_or(default)
}
