//! tollgate's embedded store: exact limits in process memory.
//!
//! ```
//! use tollgate_core::{Ask, Carry, Policy, Quota, Rule, Store, Take, Verb};
//! use tollgate_memory::MemoryStore;
//!
//! let store = MemoryStore::new();
//! let policy = Policy::new("api", [Rule::token_bucket("burst", Quota::per_second(100))])?;
//! let policy = store.install(policy, Carry::Keep)?;
//!
//! let ask = Ask::new(&policy, "user:42");
//! assert!(store.decide_now(&[ask], &Verb::Take(Take::now(1)))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - **Exact under threads.** A decision is one step under the lock of the shard the key lives in; requests for several
//!   keys lock their shards in order. The busiest keys are decided about without a lock, by one atomic exchange on a
//!   [cache line](seqlock) that is model-checked with loom.
//! - **Bounded.** Keys and states stay within a byte budget, whatever comes. A flood of new keys lets go of old ones that
//!   are as good as new, then of those nearest to that, but never of a key that is being limited; if no other is
//!   found, newcomers are counted together or admitted uncounted, as [`WhenFull`] says
//!   ([`Source::Overflow`](tollgate_core::Source::Overflow)). Only lists that existing keys hold (logs, leases) can lift
//!   it above the budget, up to their own limits. Policies are not part of it: one is kept while a handle or a key
//!   refers to it, and takes some hundred bytes.
//! - **Even.** No sweep: each decision does a little of the cleaning. No allocation for a key that is known and has a
//!   bucket or a window, unless somebody is to wait.
//! - **Small.** A key of up to 16 bytes under one such rule takes 40 to 50 bytes.

mod clock;
mod entry;
mod hash;
mod hot;
mod policies;
pub mod seqlock;
mod shard;
mod slab;
mod stats;
mod store;
mod table;

pub use clock::{Clock, CoarseClock, ManualClock, SystemClock};
pub use stats::Stats;
pub use store::{InstalledPolicy, MemoryConfig, MemoryStore, WhenFull};
