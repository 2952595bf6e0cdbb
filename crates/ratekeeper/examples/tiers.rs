//! Free, pro and enterprise: one limiter, a quota per tier, the tier chosen per request.
//!
//! The tier of a user comes from a database, a token or a header. A tier that does not exist is an error, never another
//! tier.
//!
//! `cargo run -p ratekeeper --example tiers`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use ratekeeper::{Limiter, Quota, Request, RequestError, Rule};

struct User {
    id: &'static str,
    tier: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder()
        .policy(
            "free",
            [Rule::token_bucket("burst", Quota::per_second(2)), Rule::fixed_window("daily", Quota::per_day(5))],
        )
        .policy("pro", [Rule::token_bucket("burst", Quota::per_second(20).burst(40))])
        .policy("enterprise", [Rule::token_bucket("burst", Quota::per_second(500).burst(2_000))])
        .build()?;

    let users = [
        User { id: "user:1", tier: "free" },
        User { id: "user:2", tier: "pro" },
        User { id: "user:3", tier: "enterprise" },
        User { id: "user:4", tier: "platinum" },
    ];
    for user in &users {
        for _ in 0..3 {
            match limiter.check_now(Request::new(user.id).policy(user.tier)) {
                Ok(decision) => println!("{} ({}): {decision}", user.id, user.tier),
                Err(RequestError::UnknownPolicy(error)) => println!("{} ({}): {error}", user.id, user.tier),
                Err(error) => return Err(error.into()),
            }
        }
    }

    // A tier that is known in advance is resolved once. Every method works under it.
    let enterprise = limiter.with_policy("enterprise")?;
    println!("a batch: {}", enterprise.check_now(("user:3", 1_500))?);
    Ok(())
}
