//! The shared store: state in Redis or Valkey (standalone, Sentinel or Cluster), decided by atomic Lua scripts.
//!
//! Every decision is one script call, which concurrent requests of one key share: one round trip, one `GET`, and one `SET … PX` if anything changed, whatever the
//! number of rules. The scripts are twins of the algorithms in `ratekeeper-core`, and are tested against them step by
//! step: same decisions, same stored bytes, same TTL.
//!
//! ```text
//!   RedisStore ─▶ request ─▶ script ─▶ link ─▶ server        one round trip
//!        │           numbers    text     ▲
//!        ▼                               └ deadline, circuit breaker, redirects
//!     reply ─▶ Decision
//!        └ no reply ─▶ fallback: open, closed or local, by each rule's `on_store_failure`
//! ```

mod address;
mod allotment;
mod bytes;
mod config;
mod counters;
mod events;
mod fallback;
mod fingerprint;
mod hot_keys;
mod key;
mod ledger;
#[allow(dead_code, reason = "some of a node's state is read by tests only")]
pub mod link;
mod local_rules;
mod policies;
mod prepaid_keys;
mod reply;
mod request;
mod sample;
mod script;
mod state;
mod store;
#[cfg(test)]
mod twins;

pub use address::{Address, AddressError};
pub use config::{OnForeignState, RedisConfig};
pub use counters::Counts;
pub use key::Together;
pub use link::{BreakerSettings, LinkSettings};
pub use policies::RedisPolicy;
pub use ratekeeper_core::ManualClock;
pub use sample::SampleTake;
pub use store::RedisStore;
