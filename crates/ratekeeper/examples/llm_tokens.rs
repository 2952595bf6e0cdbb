//! Tokens per minute of a language model, whose cost is known only after the call.
//!
//! Charge an estimate before the call and settle it afterwards. Unused tokens are returned at once; tokens beyond the
//! estimate are charged, even into debt. If the process crashes in between, the estimate stays charged.
//!
//! `cargo run -p ratekeeper --example llm_tokens`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use ratekeeper::{AcquireError, Limiter, Quota, Rule};

/// In place of a model: the longer the prompt, the longer the answer.
async fn call_model(prompt: &str) -> u64 {
    prompt.len() as u64 * 30
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder().rule(Rule::token_bucket("tokens", Quota::per_minute(6_000))).build()?;
    let prompts = [
        "Summarise this page.",
        "Translate the following letter into French and keep its tone, please.",
        "Explain in three paragraphs how a token bucket works, and why its burst matters in practice.",
        "Why?",
    ];
    for prompt in prompts {
        // The longest answer that is allowed; most are shorter.
        let estimate = 4_000;
        match limiter.reserve(("team:42", estimate)).await {
            Ok(reservation) => {
                let actual = call_model(prompt).await;
                let settled = reservation.settle(actual).await?;
                println!("estimated {estimate}, used {actual:>4}: {:>5} tokens left", settled.remaining());
            }
            Err(AcquireError::Denied { retry_after }) => {
                println!("estimated {estimate}, denied: free in {retry_after:.1?}");
            }
            Err(other) => return Err(other.into()),
        }
    }

    let abandoned = limiter.reserve(("team:42", 1_000)).await?;
    let cancelled = abandoned.cancel().await?;
    println!("a call that is not made costs nothing: {} tokens left", cancelled.remaining());
    Ok(())
}
