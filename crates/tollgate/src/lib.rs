//! Rate limiting that tells the truth: exact algorithms, several rules in one atomic step, waits that hold.
//!
//! ```
//! use tollgate::{Limiter, Quota, Rule, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
//!     .rule(Rule::sliding_log("daily", Quota::per_day(10_000)))
//!     .build()?;
//!
//! match limiter.check("user:42").await?.verdict {
//!     Verdict::Allow { .. } => println!("served"),
//!     Verdict::Deny { retry_after } => println!("429, come back in {retry_after}"),
//!     Verdict::Never => println!("400, that can never pass"),
//! }
//! limiter.acquire("partner-api", 5).await?; // sleeps until its turn
//! # Ok(())
//! # }
//! ```
//!
//! # What can be asked
//!
//! | to | use |
//! |---|---|
//! | ask once | [`check`](Limiter::check), [`check_n`](Limiter::check_n); without a runtime [`try_now`](Limiter::try_now), and in the least time [`verdict_now`](Limiter::verdict_now) |
//! | wait for a turn | [`acquire`](Limiter::acquire), [`acquire_timeout`](Limiter::acquire_timeout) |
//! | charge an estimate and correct it | [`reserve`](Limiter::reserve), then [`Reservation::settle`] |
//! | hold one of N places | [`hold`](Limiter::hold) |
//! | look without touching | [`peek`](Limiter::peek) |
//! | give back, charge more, shut out, forget | [`refund`](Limiter::refund), [`penalize`](Limiter::penalize), [`block`](Limiter::block), [`reset`](Limiter::reset) |
//! | change a limit while it runs | [`set_rule`](Limiter::set_rule) |
//!
//! A refusal is an answer, never an error; an error means that nothing could be decided.
//!
//! # Waiting
//!
//! `acquire` makes one call to the store, which books the permits for the moment they become free and says how long
//! to sleep. So waiters are served in the order they came, in every process that shares the store, and nobody polls.
//! Dropping the future gives the permits back, if nobody has been promised a place behind them.
//!
//! # Sharing limits
//!
//! With the feature `redis` state is kept in Redis 7.0 or newer, or in Valkey: one server, one behind Sentinel, or a
//! cluster. Every process that names the same address, domain and policy counts together, to the same numbers as in
//! memory. Start-up does not wait for the server, and while it cannot answer each rule goes by its own
//! [`OnStoreFailure`]; [`Decision::source`] says who decided.
//!
#![cfg_attr(feature = "redis", doc = "```no_run")]
#![cfg_attr(not(feature = "redis"), doc = "```ignore")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tollgate::{Limiter, Quota, RedisStore, Rule};
//!
//! let limiter = Limiter::builder()
//!     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
//!     .store(RedisStore::connect("redis://127.0.0.1:6379").await?)
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `memory` (default) is the embedded store; `tokio` (default) is what waiting sleeps on; `redis` is the shared store;
//! `tower` brings layers for axum, hyper and tonic servers, and for clients.
//! Without any of them there is still everything that decides.

mod builder;
mod error;
#[cfg(feature = "tokio")]
mod hold;
mod limiter;
mod reservation;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tokio")]
mod turns;
#[cfg(feature = "tokio")]
mod wait;

pub use builder::{LimiterBuilder, NoStore};
pub use error::{AcquireError, BuildError};
#[cfg(feature = "tokio")]
pub use hold::Held;
pub use limiter::Limiter;
pub use reservation::Reservation;
pub use tollgate_core::{
    Algorithm, Align, Ask, Carry, DecidedBy, Decision, Immediate, LeaseId, Micros, OnStoreFailure, Period, Policy,
    PolicyError, Problem, Quota, Refill, Rule, RuleDecision, RuleError, Source, Store, StoreError, UtcOffset, Verb,
    Verdict, bounds,
};
#[cfg(feature = "memory")]
pub use tollgate_memory::{Clock, CoarseClock, ManualClock, MemoryConfig, MemoryStore, Stats, SystemClock};
#[cfg(feature = "redis")]
pub use tollgate_redis::{
    Address, AddressError, BreakerSettings, Counts, LinkSettings, OnForeignState, PretendClock, RedisConfig,
    RedisPolicy, RedisStore, Together,
};
#[cfg(feature = "tokio")]
pub use wait::Acquired;
