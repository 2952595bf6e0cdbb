//! The laws of the design, over every algorithm and millions of random steps.
//!
//! - `agreement`: laws 7 (all rules or none) and 11 (same input, same answer), against the naive oracle.
//! - `bounds`: laws 1 (never over) and 2 (never under). The first is also checked at the end of every episode
//!   elsewhere.
//! - `answers`: laws 3 (retry_after is exact), 4 (a denial changes nothing), 5 (remaining is true), 6 (less is never
//!   harder), 8 (never) and 10 (reservations keep their order).
//! - `several_keys`: laws 7 and 11 for one take of several keys.
//! - `clock`: law 9 (the clock steps back).
//! - `auto_block`: automatic blocks against a naive model; law 4 does not hold for them.
//! - `refused`: rules that count refused requests, where law 4 does not hold.
//! - `promises` and `refunds`: a refund breaks no reservation.
//! - `partial`: the largest cost that passes is granted, and not one permit more.
//! - `verbs` and `change`: the other verbs, and migration.
//!
//! `RATEKEEPER_LAW_STEPS` sets the number of steps per algorithm (default: a million); `RATEKEEPER_LAW_SEED` replays the
//! one episode that a failure named.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod agreement;
mod answers;
mod auto_block;
mod bounds;
mod change;
mod clock;
mod episode;
mod partial;
mod promises;
mod refunds;
mod refused;
mod several_keys;
mod verbs;
