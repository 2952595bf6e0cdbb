//! At most three at a time: workers hold a place while they work and give it up by going away.
//!
//! A worker that crashes cannot give its place up; its lease ends by itself, unless it says now and then that it is
//! still there.
//!
//! `cargo run --example worker_pool`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::sleep};
use tollgate::{AcquireError, Limiter, Rule};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lease = Duration::from_secs(1);
    let limiter = Limiter::builder().rule(Rule::concurrency("converters", 3, lease)).build()?;
    let began = Instant::now();

    // One of the three places belongs to a worker that is never heard of again.
    std::mem::forget(limiter.hold("videos").await?);
    println!("{:>5} ms  a worker has crashed with a place in its hands", began.elapsed().as_millis());

    let mut tasks = JoinSet::new();
    for job in 1..=7 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let held = limiter.hold("videos").await?;
            println!("{:>5} ms  job {job} begins", began.elapsed().as_millis());
            for _ in 0..2 {
                sleep(Duration::from_millis(200)).await;
                held.heartbeat().await?;
            }
            println!("{:>5} ms  job {job} is done", began.elapsed().as_millis());
            Ok::<_, AcquireError>(()) // `held` goes out of scope here, and the next one begins
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    let free = limiter.peek("videos").await?.remaining();
    println!("{:>5} ms  {free} places are free again", began.elapsed().as_millis());
    Ok(())
}
