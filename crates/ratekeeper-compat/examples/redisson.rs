//! A limiter shared with Java. Start a Redis, then run it, twice at once if you like:
//!
//! ```text
//! cargo run -p ratekeeper-compat --example redisson -- redis://127.0.0.1:6379
//! ```
//!
//! The same limiter in Java: `redisson.getRateLimiter("example:api").tryAcquire()`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{env, error::Error, time::Duration};

use ratekeeper_compat::redisson::{AcquireOutcome, Rate, RedissonClient, Taken};

#[tokio::main]
#[allow(dead_code, reason = "a test calls what is below")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = RedissonClient::connect(url).await?;
    let limiter = client.rate_limiter("example:api");

    // The first caller sets the rate; it expires a minute after the last use.
    let rate = Rate::overall(5, Duration::from_secs(1))?.keep_alive(Duration::from_secs(60))?;
    println!("set up by us: {}", limiter.try_set_rate(&rate).await?);

    for turn in 1..=7 {
        match limiter.try_acquire().await? {
            AcquireOutcome::Granted { available } => println!("{turn}: granted, {available} left"),
            AcquireOutcome::Refused(refusal) => println!("{turn}: refused, try again in {:?}", refusal.retry_after),
        }
    }

    limiter.acquire(3).await?;
    println!("waited for three, and give one back");
    limiter.release(1).await?;

    // A new rate, without forgetting what was taken under the old one.
    let doubled = Rate::overall(10, Duration::from_secs(1))?.keep_alive(Duration::from_secs(60))?;
    limiter.update_rate(&doubled, Taken::Kept).await?;
    println!("free under the new rate: {}", limiter.available_permits().await?);
    Ok(())
}
