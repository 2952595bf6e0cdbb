//! One limit, two limiters: as two processes would, they share it through Redis.
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p tollgate --features redis --example shared`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;

use tollgate::{Limiter, OnStoreFailure, Quota, RedisStore, Rule, Source};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = env::var("REDIS_URL") else {
        println!("Say where Redis is, in REDIS_URL. To start one for a moment:");
        println!("  redis-server --port 6399 --save '' &");
        println!("  REDIS_URL=redis://127.0.0.1:6399 cargo run -p tollgate --features redis --example shared");
        return Ok(());
    };

    let here = limiter(&url).await?;
    let there = limiter(&url).await?;
    for request in 1..=6 {
        let (name, limiter) = if request % 2 == 1 { ("here", &here) } else { ("there", &there) };
        let decision = limiter.check("user:42").await?;
        match decision.source {
            Source::Store => println!("{name}: {}, {} left", decision.verdict.name(), decision.remaining()),
            other => println!("{name}: {}, but decided by {other:?}: no answer from Redis", decision.verdict.name()),
        }
    }

    let acquired = there.acquire("user:42", 1).await?; // one call to Redis, then a sleep until its turn
    println!("there: waited {:.0?} for the next one", acquired.waited);
    let _ = here.reset("user:42").await?; // the next run starts afresh
    Ok(())
}

/// What every process of a fleet would build: the same name, rules and address.
async fn limiter(url: &str) -> Result<Limiter<RedisStore>, Box<dyn std::error::Error>> {
    let rule = Rule::token_bucket("burst", Quota::per_second(2).burst(4)).on_store_failure(OnStoreFailure::Local);
    let store = RedisStore::connect(url).await?;
    Ok(Limiter::builder().domain("examples").name("shared").rule(rule).store(store).build()?)
}
