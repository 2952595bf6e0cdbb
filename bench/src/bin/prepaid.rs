//! Prepaid checks: in process next to the memory store, and through `serve` next to `serve` in memory, in one run.
//!
//!     cargo build --release -p ratekeeper-cli
//!     cargo run --release -p ratekeeper-bench --bin prepaid [-- --rounds N --checks N]
//!
//! In process: nanoseconds per check (wall time ÷ checks of all threads), whole decisions, one hot key and the same policy;
//! the prepaid key asks for 1.5 s before it is measured. `serve`: redis-benchmark, 50 connections, `RK.CHECK`, pipeline 16.
//! The sides take turns in every round; medians with their spread.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark prints, and stops if it cannot run"
)]

use std::{
    fs,
    hint::black_box,
    net::TcpStream,
    process::Command,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use ratekeeper::{Limiter, LimiterBuilder, Quota, Rule, Speed};
use ratekeeper_core::Store;
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::{Part, Process, RedisServer, require, wait_until};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let index = args.iter().position(|arg| arg == name);
        index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
    };
    let (rounds, checks) = (number("--rounds", 5).max(1), number("--checks", 2_000_000));
    in_process(rounds, checks).await;
    tokio::task::spawn_blocking(move || through_serve(rounds)).await.unwrap();
}

async fn in_process(rounds: usize, checks: usize) {
    let server = RedisServer::start();
    let quota = Quota::per_second(1_000_000_000);
    let rule = || Rule::token_bucket("bucket", quota);
    let memory = LimiterBuilder::new().name("memory").rules([rule()]).build().expect("a sound rule");
    let config = RedisConfig::default().deadline(Duration::from_secs(10));
    let store = RedisStore::connect_with(&server.url(), config).await.expect("an address");
    let prepaid = LimiterBuilder::new().name("prepaid").rules([rule()]).speed(Speed::prepaid()).store(store);
    let prepaid = prepaid.build().expect("a sound rule");
    println!("| threads | memory, ns | allotment, ns | allotment ÷ memory | decided here |\n|---|---|---|---|---|");
    for threads in [1, 2] {
        let (mut in_memory, mut by_allotment, mut here) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..rounds {
            in_memory.push(measure(&memory, threads, checks).await.0);
            let warm = Instant::now();
            while warm.elapsed() < Duration::from_millis(1_500) {
                let _ = measure(&prepaid, threads, checks / 20).await;
            }
            let (time, share) = measure(&prepaid, threads, checks).await;
            by_allotment.push(time);
            here = share;
        }
        let (memory, allotment) = (spread(&mut in_memory), spread(&mut by_allotment));
        println!(
            "| {threads} | {:.1} ({:.1} to {:.1}) | {:.1} ({:.1} to {:.1}) | {:.2} | {:.2} % |",
            memory[1],
            memory[0],
            memory[2],
            allotment[1],
            allotment[0],
            allotment[2],
            allotment[1] / memory[1],
            100.0 * here
        );
    }
}

/// Nanoseconds per check, and the share that was decided without a call. A check that is not is awaited.
#[allow(clippy::cast_precision_loss, reason = "a report")]
async fn measure<S: Store + 'static>(limiter: &Limiter<S>, threads: usize, checks: usize) -> (f64, f64) {
    let limiter = limiter.clone();
    let runtime = tokio::runtime::Handle::current();
    let run = move || {
        let barrier = Barrier::new(threads);
        thread::scope(|scope| {
            let each = |_| {
                let (limiter, barrier, runtime) = (&limiter, &barrier, &runtime);
                scope.spawn(move || {
                    let _runtime = runtime.enter();
                    barrier.wait();
                    let (began, mut here) = (Instant::now(), 0_usize);
                    for _ in 0..checks {
                        match limiter.check_here("user:1234567") {
                            Some(decision) => {
                                here += 1;
                                let _ = black_box(decision);
                            }
                            None => _ = black_box(runtime.block_on(limiter.check("user:1234567"))),
                        }
                    }
                    (began, Instant::now(), here)
                })
            };
            let running: Vec<_> = (0..threads).map(each).collect();
            let runs: Vec<_> = running.into_iter().map(|thread| thread.join().unwrap()).collect();
            // By the clocks of the threads: the one that waits for them may be woken late.
            let (first, last) = (runs.iter().map(|run| run.0).min(), runs.iter().map(|run| run.1).max());
            let (all, here) = (threads * checks, runs.iter().map(|run| run.2).sum::<usize>());
            ((last.unwrap() - first.unwrap()).as_nanos() as f64 / all as f64, here as f64 / all as f64)
        })
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Least, median, most.
fn spread(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

const RULES: &str = "
domain: bench
policies:
  - name: per-key
    match: { key: \"*\" }
    speed: prepaid
    rules: [{ name: bucket, algorithm: token_bucket, limit: 1000000000, per: 1s }]
";

struct Serve {
    port: u16,
    _process: Process,
}

impl Serve {
    fn start(store: &str) -> Self {
        let program = std::env::current_exe().expect("this program").with_file_name("ratekeeper");
        assert!(program.is_file(), "{} is missing; run `cargo build --release -p ratekeeper-cli`", program.display());
        let rules = std::env::temp_dir().join(format!("ratekeeper-bench-{}.yaml", std::process::id()));
        fs::write(&rules, RULES).expect("it can be written");
        let port = Process::free_port();
        let args = [
            "serve".to_owned(),
            format!("--rules={}", rules.display()),
            format!("--store={store}"),
            format!("--resp=127.0.0.1:{port}"),
            "--http=off".to_owned(),
            "--grpc=off".to_owned(),
            "--admin=off".to_owned(),
        ];
        let process = Process::new(program, args);
        process.start();
        wait_until("a server listens", Duration::from_secs(20), || {
            assert!(process.is_running(), "it ended: {}", process.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { port, _process: process }
    }

    fn rate(&self, keys: u32, requests: u32) -> f64 {
        let output = Command::new(require(Part::RedisBenchmark))
            .args(["-c", "50", "-r", &keys.to_string(), "--csv", "-P", "16", "-p", &self.port.to_string()])
            .args(["-n", &requests.to_string(), "RK.CHECK", "bench", "key:__rand_int__"])
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let rate = output.lines().nth(1).and_then(|line| line.split("\",\"").nth(1));
        rate.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("redis-benchmark printed {output:?}"))
    }
}

fn through_serve(rounds: usize) {
    let redis = RedisServer::start();
    let servers = [Serve::start("memory"), Serve::start(&redis.url())];
    println!("\n| keys | serve in memory, checks/s | serve on Redis, prepaid | × memory |\n|---|---|---|---|");
    for keys in [1, 100] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (server, rates) in servers.iter().zip(&mut rates) {
                let _ = server.rate(keys, 400_000);
                rates.push(server.rate(keys, 800_000));
            }
        }
        let [memory, prepaid] = rates.map(|mut rates| spread(&mut rates));
        println!(
            "| {keys} | {:.0} ({:.0} to {:.0}) | {:.0} ({:.0} to {:.0}) | {:.2} |",
            memory[1],
            memory[0],
            memory[2],
            prepaid[1],
            prepaid[0],
            prepaid[2],
            prepaid[1] / memory[1]
        );
    }
}
