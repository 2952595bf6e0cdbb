//! A bucket shared with Spring Cloud Gateway. Start a Redis, then run it:
//!
//! ```text
//! cargo run -p ratekeeper-compat --example gateway -- redis://127.0.0.1:6379
//! ```
//!
//! The same bucket in a gateway: route `search` with `redis-rate-limiter.replenishRate: 2`, `burstCapacity: 6`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{env, error::Error};

use ratekeeper_compat::gateway::{GatewayBucket, GatewayLimits, IdRule};

#[tokio::main]
#[allow(dead_code, reason = "a test calls what is below")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let search = GatewayBucket::connect(url, GatewayLimits::new(2.0, 6.0)?)
        .await?
        .id_rule(IdRule::Spring { route: "search".to_owned() });

    for turn in 1..=4 {
        let answer = search.take("user-42", 2.0).await?;
        match answer.allowed {
            true => println!("{turn}: 200, {} tokens left", answer.tokens_left),
            false => println!("{turn}: 429, come back in {:?}", answer.retry_after),
        }
    }

    // A request after that wait passes, if no other took the tokens first.
    loop {
        let answer = search.take("user-42", 2.0).await?;
        if answer.allowed {
            break;
        }
        tokio::time::sleep(answer.retry_after).await;
    }
    println!("in again");
    Ok(())
}
