//! Tokens per minute of a language model: the cost is known only afterwards.
//!
//! Charge an estimate before the call, correct it after. What was not used goes back at once; what was used beyond the
//! estimate is charged, even into debt. If the process dies in between, the estimate stays charged: the safe side.
//!
//! `cargo run --example llm_tokens`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use tollgate::{AcquireError, Limiter, Quota, Rule};

/// Stands in for the model: the longer the prompt, the longer the answer, more or less.
async fn call_model(prompt: &str) -> u64 {
    prompt.len() as u64 * 30
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder().rule(Rule::token_bucket("tokens", Quota::per_minute(6_000))).build()?;
    let prompts = [
        "Summarise this page.",
        "Translate the following letter into French, keeping its tone, please.",
        "Write a poem about a toll gate that lets exactly as many through as it should, and tell why.",
        "Why?",
    ];
    for prompt in prompts {
        // The most an answer may have; usually it has less.
        let estimate = 4_000;
        match limiter.reserve("team:42", estimate).await {
            Ok(reservation) => {
                let actual = call_model(prompt).await;
                let after = reservation.settle(actual).await?;
                println!("estimated {estimate}, used {actual:>4}: {:>5} tokens left", after.remaining());
            }
            Err(AcquireError::TooLong { retry_after }) => {
                let wait = Duration::from(retry_after);
                println!("estimated {estimate}, refused: so many will be there in {wait:.1?}");
            }
            Err(other) => return Err(other.into()),
        }
    }

    let abandoned = limiter.reserve("team:42", 1_000).await?;
    let after = abandoned.cancel().await?;
    println!("a call that was not made costs nothing: {} tokens left", after.remaining());
    Ok(())
}
