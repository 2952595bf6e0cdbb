//! Twelve tasks share the quota of a partner API, five calls a second, without polling.
//!
//! Each task asks once, is given its time and sleeps until then; they are served in arrival order. One more task has a
//! deadline that cannot be met: it is denied at once, with the wait that would have been needed.
//!
//! `cargo run -p ratekeeper --example partner_quota`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::{Duration, Instant};

use ratekeeper::{AcquireError, Limiter, Quota, Rule};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A burst of one spreads the calls evenly: one every 200 ms.
    let limiter = Limiter::builder().rule(Rule::token_bucket("partner", Quota::per_second(5).burst(1))).build()?;
    let began = Instant::now();

    let mut tasks = JoinSet::new();
    for task in 1..=12 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            limiter.acquire("partner-api").await?;
            println!("{:>5} ms  task {task:>2} calls the partner", began.elapsed().as_millis());
            Ok::<_, AcquireError>(())
        });
    }
    // Let all of them ask first.
    tokio::time::sleep(Duration::from_millis(20)).await;
    match limiter.acquire_within("partner-api", Duration::from_millis(500)).await {
        Err(AcquireError::Denied { retry_after }) => {
            println!(
                "{:>5} ms  a task with 500 ms is denied: the next call is in {retry_after:.1?}",
                began.elapsed().as_millis()
            );
        }
        other => println!("unexpected: {other:?}"),
    }
    while let Some(finished) = tasks.join_next().await {
        finished??;
    }
    Ok(())
}
