//! Checks of many keys on one connection: the library, and a bare `redis` client that calls the minimal script.
//!
//! Both have the same number of tasks in a closed loop and take turns in every round. The server's time per call is its
//! CPU time, system calls included.

use std::time::Instant;

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_redis::RedisStore;
use redis::aio::MultiplexedConnection;

use crate::{Options, server::Server, time::FLOOR};

const KEYS: usize = 10_000;
const CHECKS: usize = 100_000;
/// Fields of `INFO`.
const CPU: &[&str] = &["used_cpu_sys", "used_cpu_user"];
const READS: &[&str] = &["total_reads_processed"];

/// The figures of each round.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    server_us: Vec<f64>,
    reads: Vec<f64>,
}

pub(crate) async fn report(server: &Server, options: &Options) {
    let limiter = server.limiter("piped-0", vec![Rule::token_bucket("a", Quota::per_second(1_000_000))]).await;
    let connection = server.connection().await;
    let load = redis::cmd("SCRIPT").arg("LOAD").arg(FLOOR).to_owned();
    let hash: String = load.query_async(&mut connection.clone()).await.expect("a script");
    let rounds = options.rounds.min(7);
    println!("checks per second, one token bucket, {KEYS} keys, one connection, median of {rounds} rounds\n");
    println!(
        "| tasks | bare client, minimal script | library | ratio | server CPU, µs: bare | library | calls per read: bare | library |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for tasks in [50, 256] {
        let (mut bare, mut library) = (Rounds::default(), Rounds::default());
        for _ in 0..rounds {
            let (connection, hash) = (connection.clone(), hash.clone());
            bare.add(server, tasks, move |call| ask_bare(connection.clone(), hash.clone(), call)).await;
            let limiter = limiter.clone();
            library.add(server, tasks, move |call| check(limiter.clone(), call)).await;
        }
        let (theirs, ours) = (median(&mut bare.per_second), median(&mut library.per_second));
        println!(
            "| {tasks} | {theirs:.0} | {ours:.0} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            ours / theirs,
            median(&mut bare.server_us),
            median(&mut library.server_us),
            1.0 / median(&mut bare.reads),
            1.0 / median(&mut library.reads),
        );
    }
    println!();
}

async fn ask_bare(mut connection: MultiplexedConnection, hash: String, call: usize) {
    let key = format!("ratekeeper:1:/floor-0:{{user:{}}}", call % KEYS);
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(1).arg(key).arg(&[7_u8; 27]);
    let _: i64 = command.query_async(&mut connection).await.expect("a reply");
}

async fn check(limiter: Limiter<RedisStore>, call: usize) {
    let _ = limiter.check(&format!("user:{}", call % KEYS)).await.expect("a reply");
}

impl Rounds {
    #[allow(clippy::cast_precision_loss, reason = "a report")]
    async fn add<F>(&mut self, server: &Server, tasks: usize, make: impl Fn(usize) -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (cpu, reads, began) = (server.info(CPU), server.info(READS), Instant::now());
        let callers: Vec<_> = (0..tasks)
            .map(|first| {
                let make = make.clone();
                tokio::spawn(async move {
                    for call in (first..CHECKS).step_by(tasks) {
                        make(call).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("a call");
        }
        self.per_second.push(CHECKS as f64 / began.elapsed().as_secs_f64());
        self.server_us.push((server.info(CPU) - cpu) * 1e6 / CHECKS as f64);
        self.reads.push((server.info(READS) - reads) / CHECKS as f64);
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
