//! The first ten lines: two rules, one key, every kind of answer.
//!
//! `cargo run --example quickstart`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use tollgate::{Limiter, Quota, Rule, Verdict};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder()
        .rule(Rule::token_bucket("burst", Quota::per_second(5).burst(3)))
        .rule(Rule::sliding_log("daily", Quota::per_day(10_000)))
        .build()?; // in memory; .store(…) to share it

    for request in 1..=5 {
        let decision = limiter.check("user:42").await?;
        match decision.verdict {
            Verdict::Allow { .. } => println!("request {request}: served, {} left", decision.remaining()),
            Verdict::Deny { retry_after } => {
                println!("request {request}: 429, come back in {:.0?}", Duration::from(retry_after));
            }
            Verdict::Never => println!("request {request}: 400, that can never pass"),
        }
    }

    let acquired = limiter.acquire("user:42", 2).await?; // sleeps until its turn
    println!("waited {:.0?} for two more", acquired.waited);
    Ok(())
}
