//! A program of threads, without async: five workers share a rate of ten calls per second.
//!
//! `cargo run -p ratekeeper --example blocking`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::{
    thread,
    time::{Duration, Instant},
};

use ratekeeper::{AcquireError, Limiter, Quota, Rule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls = Rule::token_bucket("calls", Quota::per_second(10).burst(1));
    let limiter = Limiter::builder().rule(calls).build()?.blocking();
    let began = Instant::now();

    thread::scope(|scope| {
        for worker in 1..=5 {
            let limiter = limiter.clone();
            scope.spawn(move || {
                for call in 1..=2 {
                    let acquired = limiter.acquire("partner")?; // parks this thread until its turn
                    let at = began.elapsed().as_millis();
                    println!("{at:>5} ms  worker {worker}, call {call}, after {:>4} ms", acquired.waited.as_millis());
                }
                Ok::<(), AcquireError>(())
            });
        }
    });

    match limiter.acquire_within("partner", Duration::from_millis(1)) {
        Err(AcquireError::Denied { .. }) => {
            println!("{:>5} ms  a wait of 1 ms is too short", began.elapsed().as_millis());
        }
        other => println!("{other:?}"),
    }
    Ok(())
}
