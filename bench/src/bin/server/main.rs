//! gRPC and HTTP compared with throttlecrab-server, in one run.
//!
//!     cargo build --release -p ratekeeper-cli
//!     cargo run --release -p ratekeeper-bench --bin server [-- --rounds N --seconds N]
//!
//! Both servers are separate processes on loopback with state in memory; the same client, on the same machine, requests
//! 100 000 keys in a closed loop: each connection has a number of calls in flight and sends the next one after a response.
//! Servers take turns in every round; each line is the best of its rounds.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

mod closed_loop;
mod grpc_load;
mod http_load;

use std::time::Duration;

use closed_loop::RunResult;
use ratekeeper_bench::peers::{ratekeeper, throttlecrab};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let options = Options::from_args();
    let (full, crab) = (ratekeeper("ratekeeper", "ietf"), throttlecrab());
    let bare = ratekeeper("ratekeeper, no header fields", "none");
    let names = [full.name, bare.name, crab.name];
    println!("| wire | connections × in flight | | calls/s | p50 µs | p99 µs |\n|---|---|---|---|---|---|");
    for (connections, in_flight) in [(50, 1), (10, 10)] {
        let load = Load { connections, in_flight, time: options.time };
        let mut best = [RunResult::default(), RunResult::default(), RunResult::default()];
        for _ in 0..options.rounds {
            best[0].keep_better(grpc_load::run(full.grpc, &grpc_load::ratekeeper(), load).await);
            best[1].keep_better(grpc_load::run(bare.grpc, &grpc_load::ratekeeper(), load).await);
            best[2].keep_better(grpc_load::run(crab.grpc, &grpc_load::throttlecrab(), load).await);
        }
        report("gRPC", load, names, &best);
    }
    let load = Load { connections: 50, in_flight: 1, time: options.time };
    let mut best = [RunResult::default(), RunResult::default(), RunResult::default()];
    for _ in 0..options.rounds {
        best[0].keep_better(http_load::run(full.http, &http_load::ratekeeper(), load).await);
        best[1].keep_better(http_load::run(bare.http, &http_load::ratekeeper(), load).await);
        best[2].keep_better(http_load::run(crab.http, &http_load::throttlecrab(), load).await);
    }
    report("HTTP/1.1", load, names, &best);
}

fn report(wire: &str, load: Load, names: [&str; 3], best: &[RunResult; 3]) {
    for (name, result) in names.iter().zip(best) {
        let (connections, in_flight) = (load.connections, load.in_flight);
        let (rate, p50, p99) = (result.rate(), result.quantile(0.5), result.quantile(0.99));
        println!("| {wire} | {connections} × {in_flight} | {name} | {rate:.0} | {p50} | {p99} |");
    }
    let ratio = |index: usize| best[index].rate() / best[2].rate();
    println!("| {wire} | | × throttlecrab | {:.2} ({:.2} without fields) | | |", ratio(0), ratio(1));
}

/// Connections, calls in flight on each, and the duration.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    in_flight: usize,
    time: Duration,
}

struct Options {
    rounds: usize,
    time: Duration,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str, default: u64| {
            let index = args.iter().position(|arg| arg == name);
            index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
        };
        let rounds = usize::try_from(number("--rounds", 4)).unwrap_or(1);
        Self { rounds, time: Duration::from_secs(number("--seconds", 3)) }
    }
}
