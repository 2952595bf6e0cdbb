//! The cost of a decision in Redis, compared with a minimal script, a sorted set and redis-benchmark, in one run.
//!
//!     cargo run --release -p ratekeeper-bench --bin redis [-- --rounds N --calls N --pipelined]
//!
//! Starts a temporary `redis-server` on loopback. Server time is that of `EVALSHA` in `INFO commandstats`. All cases take
//! turns in every round, so that noise of the machine affects all of them; each figure is the best of its rounds.
//! `--pipelined` prints only the comparison of clients on one connection.

#![allow(clippy::print_stdout, reason = "the report is the output")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should stop")]

mod bytes;
mod client;
mod ids;
mod log;
mod pipelined;
mod server;
mod several;
mod time;
mod waiting;

use server::Server;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let options = Options::from_args();
    let server = Server::start();
    if std::env::args().any(|arg| arg == "--pipelined") {
        return pipelined::report(&server, &options).await;
    }
    time::report(&server, &options).await;
    ids::report(&server, &options).await;
    several::report(&server, &options).await;
    bytes::report(&server).await;
    log::report(&server, &options).await;
    client::report(&server, &options).await;
    pipelined::report(&server, &options).await;
    waiting::report(&server).await;
}

/// Extent of the measurement.
struct Options {
    rounds: usize,
    calls: usize,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str, default: usize| {
            let index = args.iter().position(|arg| arg == name);
            index.and_then(|index| args.get(index + 1)?.parse().ok()).unwrap_or(default)
        };
        Self { rounds: number("--rounds", 15), calls: number("--calls", 4_000) }
    }
}
