//! gRPC and HTTP beside throttlecrab-server, in one run.
//!
//!     cargo build --release -p tollgate-cli
//!     cargo run --release -p tollgate-bench --bin server [-- --rounds N --seconds N]
//!
//! Both servers are processes of their own on loopback, with state in memory, asked for 100 000 keys by the same client,
//! which shares the machine with them. A closed loop: each connection has so many calls in flight, and sends the next when
//! one is answered. Contestants take turns in every round; each line is the best of its rounds.

#![allow(clippy::print_stdout, reason = "the report is the point")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

mod calls;
mod pages;
mod seen;

use std::time::Duration;

use seen::Seen;
use tollgate_bench::contestants::{throttlecrab, tollgate};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let options = Options::from_args();
    let (ours, crab) = (tollgate("tollgate", "ietf"), throttlecrab());
    let bare = tollgate("tollgate, no header fields", "none");
    let names = [ours.name, bare.name, crab.name];
    println!("| wire | connections × in flight | | calls/s | p50 µs | p99 µs |\n|---|---|---|---|---|---|");
    for (connections, in_flight) in [(50, 1), (10, 10)] {
        let load = Load { connections, in_flight, time: options.time };
        let mut best = [Seen::default(), Seen::default(), Seen::default()];
        for _ in 0..options.rounds {
            best[0].keep_better(calls::run(ours.grpc, &calls::ours(), load).await);
            best[1].keep_better(calls::run(bare.grpc, &calls::ours(), load).await);
            best[2].keep_better(calls::run(crab.grpc, &calls::crab(), load).await);
        }
        report("gRPC", load, names, &best);
    }
    let load = Load { connections: 50, in_flight: 1, time: options.time };
    let mut best = [Seen::default(), Seen::default(), Seen::default()];
    for _ in 0..options.rounds {
        best[0].keep_better(pages::run(ours.http, &pages::ours(), load).await);
        best[1].keep_better(pages::run(bare.http, &pages::ours(), load).await);
        best[2].keep_better(pages::run(crab.http, &pages::crab(), load).await);
    }
    report("HTTP/1.1", load, names, &best);
}

fn report(wire: &str, load: Load, names: [&str; 3], best: &[Seen; 3]) {
    for (name, seen) in names.iter().zip(best) {
        let (connections, in_flight) = (load.connections, load.in_flight);
        let (rate, p50, p99) = (seen.rate(), seen.quantile(0.5), seen.quantile(0.99));
        println!("| {wire} | {connections} × {in_flight} | {name} | {rate:.0} | {p50} | {p99} |");
    }
    let ratio = |index: usize| best[index].rate() / best[2].rate();
    println!("| {wire} | | × throttlecrab | {:.2} ({:.2} without fields) | | |", ratio(0), ratio(1));
}

/// How many calls at a time, for how long.
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
            let place = args.iter().position(|arg| arg == name);
            place.and_then(|place| args.get(place + 1)?.parse().ok()).unwrap_or(default)
        };
        let rounds = usize::try_from(number("--rounds", 4)).unwrap_or(1);
        Self { rounds, time: Duration::from_secs(number("--seconds", 3)) }
    }
}
