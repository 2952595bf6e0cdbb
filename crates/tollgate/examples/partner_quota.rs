//! A partner allows five calls a second. Twelve tasks share that quota, and none of them polls.
//!
//! Each task asks once and is told its moment; they go in the order they came. One more has a deadline that cannot be
//! met and hears so at once, with the time it would take.
//!
//! `cargo run --example partner_quota`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate::{AcquireError, Limiter, Quota, Rule};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A burst of one spreads the calls evenly: one every 200 ms.
    let limiter = Limiter::builder().rule(Rule::token_bucket("partner", Quota::per_second(5).burst(1))).build()?;
    let began = Instant::now();

    let mut tasks = JoinSet::new();
    for task in 1..=12 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            limiter.acquire("partner-api", 1).await?;
            println!("{:>5} ms  task {task:>2} calls the partner", began.elapsed().as_millis());
            Ok::<_, AcquireError>(())
        });
    }
    // Let them get in line first.
    tokio::time::sleep(Duration::from_millis(20)).await;
    match limiter.acquire_timeout("partner-api", 1, Duration::from_millis(500)).await {
        Err(AcquireError::TooLong { retry_after }) => {
            let at = began.elapsed().as_millis();
            let wait = Duration::from(retry_after);
            println!("{at:>5} ms  a task that would wait 500 ms is told at once: not within {wait:.1?}");
        }
        other => println!("unexpected: {other:?}"),
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(())
}
