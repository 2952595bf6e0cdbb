//! Two rules, one key, every kind of decision.
//!
//! `cargo run -p ratekeeper --example quickstart`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use ratekeeper::{Limiter, Quota, Rule, Verdict};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder()
        .rule(Rule::token_bucket("burst", Quota::per_second(5).burst(3)))
        .rule(Rule::sliding_log("daily", Quota::per_day(10_000)))
        .build()?; // in memory; .store(…) for another store

    for request in 1..=5 {
        let decision = limiter.check("user:42").await?;
        match decision.verdict {
            Verdict::Allow { .. } => println!("request {request}: served, {} left", decision.remaining()),
            Verdict::Deny { retry_after } => {
                println!("request {request}: 429, retry after {:.0?}", Duration::from(retry_after));
            }
            Verdict::Never => println!("request {request}: 400, the cost exceeds the limit"),
        }
    }

    let acquired = limiter.acquire(("user:42", 2)).await?; // sleeps until two permits are free
    println!("waited {:.0?} for two permits", acquired.waited);
    Ok(())
}
