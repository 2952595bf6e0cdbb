//! A manual clock: tests of code behind a limiter that never sleep.
//!
//! `cargo run -p ratekeeper --example manual_clock`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use ratekeeper::{Limiter, ManualClock, Quota, Rule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::default();
    let limiter = Limiter::builder()
        .rule(Rule::token_bucket("burst", Quota::per_second(1).burst(2)))
        .rule(Rule::fixed_window("daily", Quota::per_day(3)))
        .clock(clock.clone()) // clones share the time
        .build()?;

    // The burst of two passes; the third request has to wait for a refill.
    assert!(limiter.check_now("user:42")?.is_allowed());
    assert!(limiter.check_now("user:42")?.is_allowed());
    assert!(!limiter.check_now("user:42")?.is_allowed());

    // One second later one permit is refilled. It is the last one of the daily quota.
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check_now("user:42")?.is_allowed());
    clock.advance(Duration::from_secs(10));
    assert!(!limiter.check_now("user:42")?.is_allowed());

    // The next day, without waiting for it.
    clock.advance(Duration::from_secs(86_400));
    assert!(limiter.check_now("user:42")?.is_allowed());
    println!("a day of limits, tested without sleeping");
    Ok(())
}
