//! At most three workers at a time: each holds a lease while it works and releases it by dropping the guard.
//!
//! A worker that crashes releases nothing; its lease expires, unless heartbeats extend it.
//!
//! `cargo run -p ratekeeper --example worker_pool`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::{Duration, Instant};

use ratekeeper::{Limiter, Rule};
use tokio::{task::JoinSet, time::sleep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lease = Duration::from_secs(1);
    let limiter = Limiter::builder().rule(Rule::concurrency("converters", 3, lease)).build()?;
    let began = Instant::now();

    // A worker that crashed: its lease is never released.
    std::mem::forget(limiter.hold("videos").await?);
    println!("{:>5} ms  a worker has crashed with a lease", began.elapsed().as_millis());

    let mut tasks = JoinSet::new();
    for job in 1..=7 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let lease = limiter.hold("videos").await?;
            println!("{:>5} ms  job {job} begins", began.elapsed().as_millis());
            for _ in 0..2 {
                sleep(Duration::from_millis(200)).await;
                lease.heartbeat().await?;
            }
            println!("{:>5} ms  job {job} is done", began.elapsed().as_millis());
            Ok::<_, ratekeeper::AcquireError>(()) // `lease` is dropped here, and the next job begins
        });
    }
    while let Some(finished) = tasks.join_next().await {
        finished??;
    }
    let free = limiter.peek("videos").await?.remaining();
    println!("{:>5} ms  {free} leases are free", began.elapsed().as_millis());
    Ok(())
}
