//! One limit shared through Redis by two limiters, as by two processes; the store is chosen at run time.
//!
//! A key as busy as thousands of requests a second gains from `.speed(Speed::prepaid())` in the builder: its permits come in
//! advance, and most decisions need no call.
//!
//! `STORE=redis://127.0.0.1:6379 cargo run -p ratekeeper --features redis --example shared`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::env;

use ratekeeper::{AnyStore, Limiter, OnStoreFailure, Quota, Rule, Source};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::var("STORE").unwrap_or_else(|_| {
        println!("STORE is not set, so the limits are in memory and not shared. To start a server for a test:");
        println!("  redis-server --port 6399 --save '' &");
        println!("  STORE=redis://127.0.0.1:6399 cargo run -p ratekeeper --features redis --example shared\n");
        "memory".to_owned()
    });

    let here = limiter(&url).await?;
    let there = limiter(&url).await?;
    for request in 1..=6 {
        let (name, limiter) = if request % 2 == 1 { ("here", &here) } else { ("there", &there) };
        let decision = limiter.check("user:42").await?;
        match decision.source {
            Source::Store | Source::Allotment | Source::CachedDenial => println!("{name}: {decision}"),
            source => println!("{name}: {decision}; no reply from Redis, decided by {}", source.name()),
        }
    }

    let acquired = there.acquire("user:42").await?; // one call to the store, then a sleep
    println!("there: waited {:.0?} for the next permit", acquired.waited);
    let _ = here.reset("user:42").await?; // for the next run
    Ok(())
}

/// Every process of a fleet builds the same: name, rules and address.
async fn limiter(url: &str) -> Result<Limiter<AnyStore>, Box<dyn std::error::Error>> {
    let rule = Rule::token_bucket("burst", Quota::per_second(2).burst(4)).on_store_failure(OnStoreFailure::Local);
    let store = AnyStore::open(url).await?;
    Ok(Limiter::builder().domain("examples").name("shared").rule(rule).store(store).build()?)
}
