//! Embedded store of ratekeeper: exact rate limits in process memory.
//!
//! ```
//! use ratekeeper_core::{Ask, OnQuotaChange, Policy, Quota, Rule, Store, Take, Verb};
//! use ratekeeper_memory::MemoryStore;
//!
//! let store = MemoryStore::new();
//! let policy = Policy::new("api", [Rule::token_bucket("burst", Quota::per_second(100))])?;
//! let policy = store.install(policy, OnQuotaChange::Keep)?;
//!
//! let ask = Ask::new(&policy, "user:42");
//! assert!(store.decide_now(&[ask], &Verb::Take(Take::now()))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - **Exact under threads.** A decision is one step under the lock of the key's shard; requests for several keys lock
//!   their shards in ascending order. The busiest keys are decided without a lock, by one atomic exchange on a
//!   cache line that is model-checked with loom.
//! - **Bounded.** Keys and states stay within a byte budget. A flood of new keys evicts keys that are back to their
//!   initial state, then those closest to it, but never a limited key. If no other is found, new keys are counted
//!   together or admitted uncounted, as [`WhenFull`] says ([`Source::Overflow`](ratekeeper_core::Source::Overflow)).
//!   Only lists of stored keys (logs, leases) can exceed the budget, up to their own limits. Policies are not part of
//!   it: one is kept while a handle or a key refers to it, and takes some hundred bytes.
//! - **Even latency.** Cleaning is incremental, a little with each decision. No allocation for a stored key under a
//!   bucket or a window, unless a reservation is made.
//! - **Small.** A key of up to 16 bytes under one such rule takes 40 to 50 bytes.

mod clock;
mod config;
mod entry;
mod hash;
mod hot;
mod policies;
#[cfg(not(loom))]
#[expect(unreachable_pub, reason = "public with cfg(loom), for tests/loom.rs")]
mod seqlock;
#[cfg(loom)]
pub mod seqlock;
mod shard;
mod slab;
mod stats;
mod store;
mod table;
mod version_tag;

pub use clock::{Clock, CoarseClock, SystemClock};
pub use config::{MemoryConfig, WhenFull};
pub use ratekeeper_core::ManualClock;
pub use stats::Stats;
pub use store::{InstalledPolicy, MemoryStore};
