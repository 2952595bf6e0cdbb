//! What a decision costs on Redis, beside the least a script could do, a sorted set, and redis-benchmark, in one run.
//!
//!     cargo run --release -p tollgate-bench --bin redis [-- --rounds N --calls N]
//!
//! Starts a throw-away `redis-server` on loopback. Server time is what `INFO commandstats` counts for `EVALSHA`. In
//! every round all contestants take turns, so that a noisy neighbour hits all of them; each figure is the best of its
//! rounds.

#![allow(clippy::print_stdout, reason = "the report is the point")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

mod bytes;
mod client;
mod log;
mod server;
mod time;
mod waiting;

use server::Server;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let options = Options::from_args();
    let server = Server::start();
    time::report(&server, &options).await;
    bytes::report(&server).await;
    log::report(&server, &options).await;
    client::report(&server, &options).await;
    waiting::report(&server).await;
}

/// How much to measure.
struct Options {
    rounds: usize,
    calls: usize,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str, default: usize| {
            let place = args.iter().position(|arg| arg == name);
            place.and_then(|place| args.get(place + 1)?.parse().ok()).unwrap_or(default)
        };
        Self { rounds: number("--rounds", 15), calls: number("--calls", 4_000) }
    }
}
