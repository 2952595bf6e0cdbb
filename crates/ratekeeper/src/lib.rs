//! Rate limiting with exact algorithms, several rules in one atomic step, in memory or in Redis.
//!
#![cfg_attr(all(feature = "memory", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "memory", feature = "tokio")), doc = "```ignore")]
//! use ratekeeper::{Limiter, Quota, Rule, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
//!     .rule(Rule::sliding_log("daily", Quota::per_day(10_000)))
//!     .build()?; // in memory
//!
//! match limiter.check("user:42").await?.verdict {
//!     Verdict::Allow { .. } => println!("served"),
//!     Verdict::Deny { retry_after } => println!("429, retry after {retry_after}"),
//!     Verdict::Never => println!("400, the cost exceeds the limit"),
//! }
//! limiter.acquire(("partner-api", 5)).await?; // sleeps until five permits are free
//! # Ok(())
//! # }
//! ```
//!
//! # Ways to ask
//!
//! Every method takes a [`Request`]: a key (`"user:42"`, cost 1), a key with a cost (`("user:42", 5)`), or
//! `Request::new("user:42").cost(5).policy("pro")`.
//!
//! | purpose | method | a denial is |
//! |---|---|---|
//! | take permits now | [`check`](Limiter::check) | a [`Decision`] |
//! | the same without a runtime, in memory | [`check_now`](Limiter::check_now); [`verdict_now`](Limiter::verdict_now) skips the numbers | a [`Decision`], a [`Verdict`] |
//! | take permits of several keys, all or none | [`check_all`](Limiter::check_all), [`check_all_now`](Limiter::check_all_now) | a [`JointDecision`] |
//! | take permits under a policy that comes with the call | [`check_with`](Limiter::check_with), [`check_with_now`](Limiter::check_with_now) | a [`Decision`] |
//! | wait for permits | `acquire`, `acquire_within` | [`AcquireError::Denied`] |
//! | limit concurrency | `hold`, `hold_within`; the guard releases the lease | [`AcquireError::Denied`] |
//! | charge an estimate, correct it later | [`reserve`](Limiter::reserve), [`reserve_within`](Limiter::reserve_within), then [`Reservation::settle`] | [`AcquireError::Denied`] |
//! | look | [`peek`](Limiter::peek) | – |
//! | return or charge permits | [`refund`](Limiter::refund), [`penalize`](Limiter::penalize), [`settle`](Limiter::settle) | – |
//! | block or reset a key | [`block`](Limiter::block), [`reset`](Limiter::reset) | – |
//! | change a rule at run time | [`set_rule`](Limiter::set_rule) | – |
//!
//! A check returns a denial as a value. Methods that return a guard have none to return on a denial, so there it is an error,
//! with the same `retry_after`. All other errors mean that nothing could be decided. A denial charges nothing. A cost of 0
//! charges nothing either, and is admitted even if no permit is left.
//!
//! # Tiers
//!
//! A limiter may have several policies. The request selects one by name; a name that does not exist is an error.
//!
#![cfg_attr(feature = "memory", doc = "```")]
#![cfg_attr(not(feature = "memory"), doc = "```ignore")]
//! use ratekeeper::{Limiter, Quota, Request, Rule};
//!
//! let limiter = Limiter::builder()
//!     .policy("free", [Rule::token_bucket("burst", Quota::per_second(5)), Rule::fixed_window("daily", Quota::per_day(1_000))])
//!     .policy("pro", [Rule::token_bucket("burst", Quota::per_second(100).burst(200))])
//!     .policy("enterprise", [Rule::token_bucket("burst", Quota::per_second(5_000))])
//!     .build()?;
//! let tier = "pro"; // from a database, a token or a header
//! assert!(limiter.check_now(Request::new("user:42").policy(tier))?.is_allowed());
//!
//! let enterprise = limiter.with_policy("enterprise")?; // resolved once; every method works on it
//! assert!(enterprise.check_now(("user:7", 1_000))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rule files
//!
//! With the feature `rules`, `RuleLimiter` decides by the rule files of the ratekeeper server: descriptors are matched by the
//! same code, and overrides of single keys apply. `RuleLimiter::replace` loads new rules and keeps the counts of unchanged
//! policies.
//!
//! # Stores
//!
//! Without a store in the builder, state is in process memory, within a byte budget. With the feature `redis` it is in Redis
//! 7.0 or newer, or Valkey: one server, Sentinel or Cluster. Processes that use the same address, domain and policy names count
//! together, with the same numbers as in memory. While the server is unreachable, each rule decides by its
//! [`OnStoreFailure`]; [`Decision::source`] is the part that decided.
//!
#![cfg_attr(feature = "redis", doc = "```no_run")]
#![cfg_attr(not(feature = "redis"), doc = "```ignore")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ratekeeper::{AnyStore, Limiter, Quota, RedisStore, Rule};
//!
//! let limiter = Limiter::builder()
//!     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
//!     .store(RedisStore::connect("redis://127.0.0.1:6379").await?)
//!     .build()?;
//!
//! // Chosen at run time: one type for both.
//! let url = std::env::var("STORE").unwrap_or_else(|_| "memory".to_owned());
//! let limiter: Limiter<AnyStore> = Limiter::builder()
//!     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
//!     .store(AnyStore::open(&url).await?) // memory, redis://…, redis+sentinel://…, redis+cluster://…
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! By default the store decides every request; requests of one key that arrive together share a call. With
//! [`LimiterBuilder::speed`] and [`Speed::prepaid`], a process holds permits of its busy keys, granted in advance, and decides
//! those keys without a call: [`Source::Allotment`] and [`Source::CachedDenial`]. The limit holds in every window either way.
//! A request may be denied although another process holds permits that it will not use; they are back after at most two
//! turns of 100 ms, or after the hold time if that process has crashed.
//!
//! `redisson` and `gateway` (with the same feature) are limiters on the Redis keys of Redisson, Spring Cloud Gateway and
//! ShenYu.
//!
//! # Waiting
//!
//! `acquire` makes one call to the store, which reserves the permits for the time they become free, and sleeps until then.
//! Waiters are served in arrival order, in all processes that share the store, and none of them polls. Dropping the future
//! refunds the permits, unless a later reservation depends on them.
//!
//! # Without async
//!
//! [`Limiter::blocking`] has the same methods for threads: they return the result, and `acquire` and `hold` park the thread.
//! In memory there is no runtime at all; for Redis, `LimiterBuilder::open_blocking` starts one background thread.
//!
#![cfg_attr(all(feature = "memory", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "memory", feature = "tokio")), doc = "```ignore")]
//! use ratekeeper::{Limiter, Quota, Rule};
//!
//! let limiter = Limiter::builder().rule(Rule::token_bucket("burst", Quota::per_second(1_000))).build()?.blocking();
//! assert!(limiter.check("user:42")?.is_allowed());
//! limiter.acquire(("user:42", 1_000))?; // sleeps for a millisecond, until the bucket is full again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tests
//!
//! A limiter on a [`ManualClock`] needs no sleeping:
//!
#![cfg_attr(feature = "memory", doc = "```")]
#![cfg_attr(not(feature = "memory"), doc = "```ignore")]
//! use std::time::Duration;
//! use ratekeeper::{Limiter, ManualClock, Quota, Rule};
//!
//! let clock = ManualClock::default();
//! let limiter = Limiter::builder().rule(Rule::token_bucket("burst", Quota::per_second(1))).clock(clock.clone()).build()?;
//! assert!(limiter.check_now("user:42")?.is_allowed());
//! assert!(!limiter.check_now("user:42")?.is_allowed());
//! clock.advance(Duration::from_secs(1));
//! assert!(limiter.check_now("user:42")?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Metrics and logs
//!
//! [`LimiterBuilder::observer`] reports every decision, failure, wait and change of the store's health to a closure or an
//! [`Observer`]. With the feature `tracing`, events go to `tracing` subscribers as well.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `memory` | yes | the embedded store |
//! | `tokio` | yes | waiting: `acquire` and `hold` sleep on tokio's timer, or park a thread: `BlockingLimiter` |
//! | `tracing` | yes | events for `tracing` subscribers |
//! | `redis` | no | limits shared by several processes, in Redis or Valkey; `redis-tls` adds TLS |
//! | `rules` | no | rule files: `RuleLimiter` |
//! | `tower` | no | layers for servers and clients; `tower-axum`, `tower-tonic` and `tower-retry` add their integrations |
//!
//! Without any of them, limiters work on a store of another crate: see [`store`].

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tokio")]
mod acquire;
#[cfg(feature = "memory")]
mod any_store;
mod ask;
#[cfg(feature = "tokio")]
mod blocking;
mod builder;
mod change;
mod check_all;
mod check_with;
#[cfg(feature = "tokio")]
mod deadline;
#[cfg(feature = "rules")]
mod descriptor;
mod error;
#[cfg(feature = "tokio")]
mod hold;
mod inline_policies;
mod limiter;
#[cfg(not(feature = "memory"))]
mod missing_store;
mod observer;
mod policies;
mod request;
mod reservation;
#[cfg(feature = "rules")]
mod rule_limiter;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;
mod trace;
#[cfg(feature = "tokio")]
mod wait_queue;
#[cfg(feature = "tokio")]
mod waiting;

#[cfg(feature = "tokio")]
pub use acquire::Acquired;
#[cfg(feature = "memory")]
pub use any_store::{AnyPolicy, AnyStore, OpenStoreError, StoreConfig};
#[cfg(all(feature = "tokio", feature = "redis"))]
pub use blocking::OpenBlockingError;
#[cfg(feature = "tokio")]
pub use blocking::{BlockingLease, BlockingLimiter, BlockingReservation};
pub use builder::{LimiterBuilder, NoStore};
pub use check_all::JointDecision;
#[cfg(feature = "rules")]
pub use descriptor::Descriptor;
pub use error::{AcquireError, BuildError, RequestError, UnknownPolicy};
#[cfg(feature = "tokio")]
pub use hold::LeaseGuard;
pub use limiter::{DefaultStore, Limiter};
pub use observer::{LimiterEvent, Observer};
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use ratekeeper_compat::{gateway, redisson};
pub use ratekeeper_core::{
    AlgorithmSpec, Align, DecidedBy, Decision, HealthStatus, LeaseId, ManualClock, OnExpiry, OnQuotaChange,
    OnStoreFailure, Period, Policy, PolicyError, Prepaid, Problem, Quota, Refill, RequestId, RetryAfter, Rule,
    RuleDecision, RuleError, Source, Span, Speed, Store, StoreError, Terms, Timestamp, UtcOffset, Verb, Verdict,
    bounds,
};
#[cfg(feature = "memory")]
pub use ratekeeper_memory::{Clock, CoarseClock, MemoryConfig, MemoryStore, Stats, SystemClock};
#[cfg(feature = "redis")]
pub use ratekeeper_redis::{
    Address, AddressError, BreakerSettings, Counts, LinkSettings, OnForeignState, RedisConfig, RedisPolicy, RedisStore,
    Together,
};
pub use request::Request;
pub use reservation::Reservation;
#[cfg(feature = "rules")]
pub use rule_limiter::{JointRuleAnswer, PartAnswer, RuleAnswer, RuleLimiter, RuleMatch};

/// For authors of stores: what [`Store`] is asked and answers.
pub mod store {
    pub use ratekeeper_core::{
        Ask, Immediate, InlineLimits, Store, StoreError, Take, Terms, Verb,
        store_api::{InspectedKey, KeyState},
    };
}

/// Reading of rule files.
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod rules {
    pub use ratekeeper_rules::{
        Format, Problem, Problems, RuleFile, matching::AmbiguousKey, read_path, read_paths, read_str,
    };
}

/// The code of the README, compiled and run with the tests.
#[cfg(all(doctest, feature = "memory", feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The code of the page about the library, compiled and run with the tests.
#[cfg(all(doctest, feature = "memory", feature = "tokio", feature = "rules"))]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;

/// The code of the page about retries, compiled and run with the tests.
#[cfg(all(doctest, feature = "memory", feature = "tokio"))]
#[doc = include_str!("../../../docs/retries.md")]
struct RetriesPage;
