//! Checks of one key in Redis by many callers: one call per check, merged calls, and prepaid, in one run.
//!
//!     cargo run --release -p ratekeeper-bench --bin hot_key [-- --rounds N --checks N --callers N --warm MS --way merged --peer PROGRAM]
//!
//! `--peer` runs redis_rate in the same way, if `go build -o PROGRAM .` in `bench/redis_rate` has built it.
//!
//! Starts a temporary `redis-server` on loopback. Callers ask in a closed loop. All ways take turns in every round; rates
//! are medians of the rounds with their spread, latencies are those of the last round. Prepaid callers ask for `--warm`
//! milliseconds before they are measured, so that the key is hot, and make fifty times as many checks. Of those, one in
//! 64 is timed, because two reads of the clock take about as long as the check itself.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::time::{Duration, Instant};

use ratekeeper::{Limiter, LimiterBuilder, Quota, Rule, Speed};
use ratekeeper_bench::wakers::wakes_per_second;
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::RedisServer;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let options = Options::from_args();
    let server = RedisServer::start();
    println!(
        "one key, {} callers in a closed loop, {} checks a round, median of {} rounds (least to most)\n",
        options.callers, options.checks, options.rounds
    );
    if options.way.is_none() {
        report_floor(&options).await;
    }
    println!(
        "| rule | way | checks per second | × one call per check | checks per call | Redis time per check, µs | p50 | p99 | p99.9 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, quota) in [
        ("all allowed", Quota::per_second(1_000_000_000)),
        ("about half denied", Quota::per_second(40_000).burst(4_000)),
        ("half of what prepaid callers ask", Quota::per_second(2_000_000)),
        ("mostly denied", Quota::per_hour(1)),
    ] {
        compare(&server, name, quota, &options).await;
    }
}

/// The same callers without a store, and another library in its own process.
async fn report_floor(options: &Options) {
    let mut wakes = Vec::new();
    for _ in 0..options.rounds {
        let waking = tokio::spawn(wakes_per_second(options.callers, options.checks * 5));
        wakes.push(waking.await.expect("a rate"));
    }
    wakes.sort_by(f64::total_cmp);
    let (least, median, most) = (wakes[0], wakes[wakes.len() / 2], wakes[wakes.len() - 1]);
    println!(
        "tasks that sleep and are woken together, without a store: {median:.0} ({least:.0} to {most:.0}) a second"
    );
    let Some(peer) = &options.peer else { return println!() };
    let server = RedisServer::start();
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let number = |number: usize| number.to_string();
    let output = std::process::Command::new(peer)
        .args(["-addr", &address, "-callers", &number(options.callers)])
        .args(["-checks", &number(options.checks), "-rounds", &number(options.rounds)])
        .output()
        .expect("it can be started");
    println!("{}", String::from_utf8_lossy(&output.stdout));
}

struct Options {
    rounds: usize,
    checks: usize,
    callers: usize,
    warm: Duration,
    /// This way alone, to profile it.
    way: Option<String>,
    /// The program of `bench/redis_rate`.
    peer: Option<String>,
}

/// How checks reach the store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Single,
    Merged,
    Prepaid,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str, default: usize| {
            let index = args.iter().position(|arg| arg == name);
            index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
        };
        let (rounds, callers) = (number("--rounds", 5).max(1), number("--callers", 256).max(1));
        // As many for every caller.
        let checks = number("--checks", 200_000).next_multiple_of(callers);
        let warm = Duration::from_millis(number("--warm", 1_000) as u64);
        let text = |name: &str| args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1).cloned());
        Self { rounds, checks, callers, warm, way: text("--way"), peer: text("--peer") }
    }
}

/// One round.
struct Measured {
    per_second: f64,
    checks: usize,
    calls: u64,
    redis_us: f64,
    latencies: Vec<Duration>,
}

#[allow(clippy::cast_precision_loss, reason = "a report")]
async fn compare(server: &RedisServer, name: &str, quota: Quota, options: &Options) {
    let ways = [("one call per check", Way::Single), ("merged", Way::Merged), ("prepaid", Way::Prepaid)];
    let mut rounds: [Vec<Measured>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        for ((name_of_way, way), rounds) in ways.iter().zip(&mut rounds) {
            if options.way.as_ref().is_some_and(|only| only != name_of_way) {
                continue;
            }
            let limiter = limiter(server, quota, *way).await;
            // Without spaces, which are escaped in the key's name.
            let key = format!("{name}-{round}-{way:?}").replace(' ', "-");
            if *way == Way::Prepaid {
                let warm = Instant::now();
                while warm.elapsed() < options.warm {
                    let _ = measure(server, &limiter, &key, options.callers, options.checks / 20, 64).await;
                }
            }
            let (checks, every) = if *way == Way::Prepaid { (options.checks * 50, 64) } else { (options.checks, 1) };
            rounds.push(measure(server, &limiter, &key, options.callers, checks, every).await);
        }
    }
    let median = |rounds: &[Measured]| {
        let mut rates: Vec<f64> = rounds.iter().map(|round| round.per_second).collect();
        rates.sort_by(f64::total_cmp);
        (rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
    };
    let base = if rounds[0].is_empty() { f64::NAN } else { median(&rounds[0]).0 };
    for ((way, _), rounds) in ways.iter().zip(&mut rounds) {
        if rounds.is_empty() {
            continue;
        }
        let (rate, least, most) = median(rounds);
        let Some(last) = rounds.last_mut() else { continue };
        last.latencies.sort_unstable();
        let at = |permille: usize| last.latencies[(last.latencies.len() - 1) * permille / 1_000];
        println!(
            "| {name} | {way} | {rate:.0} ({least:.0} to {most:.0}) | {:.1} | {:.1} | {:.2} | {:.2?} | {:.2?} | {:.2?} |",
            rate / base,
            last.checks as f64 / last.calls.max(1) as f64,
            last.redis_us / last.checks as f64,
            at(500),
            at(990),
            at(999),
        );
    }
}

/// The server is measured, so deadlines are long and there is no fallback.
async fn limiter(server: &RedisServer, quota: Quota, way: Way) -> Limiter<RedisStore> {
    let config = RedisConfig::default().deadline(Duration::from_secs(10)).merging(way != Way::Single);
    let store = RedisStore::connect_with(&server.url(), config).await.expect("an address");
    let rule = Rule::token_bucket("bucket", quota);
    let speed = if way == Way::Prepaid { Speed::prepaid() } else { Speed::Exact };
    LimiterBuilder::new().name("hot").rules([rule]).speed(speed).store(store).build().expect("a sound rule")
}

#[allow(clippy::cast_precision_loss, reason = "a report")]
async fn measure(
    server: &RedisServer,
    limiter: &Limiter<RedisStore>,
    key: &str,
    callers: usize,
    checks: usize,
    timed_every: usize,
) -> Measured {
    let _ = limiter.check(key).await.expect("a reply");
    let _ = server.command(&["CONFIG", "RESETSTAT"]).expect_ok();
    // Each caller has its own share, so that callers have nothing in common but the limiter.
    let share = checks / callers;
    let began = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (limiter, key) = (limiter.clone(), key.to_owned());
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(share / timed_every + 1);
                for check in 0..share {
                    let asked = check.is_multiple_of(timed_every).then(Instant::now);
                    let _ = limiter.check(&key).await.expect("a reply");
                    latencies.extend(asked.map(|asked| asked.elapsed()));
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(checks);
    for caller in callers {
        latencies.extend(caller.await.expect("a caller"));
    }
    let per_second = checks as f64 / began.elapsed().as_secs_f64();
    let info = server.command(&["INFO", "commandstats"]).text();
    let scripts = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let (mut calls, mut redis_us) = (0.0, 0.0);
    for line in scripts {
        let field = |name: &str| {
            let field = line.split([',', ':']).find_map(|field| field.strip_prefix(name));
            field.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
        };
        (calls, redis_us) = (calls + field("calls="), redis_us + field("usec="));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let calls = calls as u64;
    Measured { per_second, checks, calls, redis_us, latencies }
}
