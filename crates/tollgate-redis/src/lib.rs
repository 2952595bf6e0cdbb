//! State in Redis, Valkey, Sentinel or Cluster, decided by atomic Lua scripts.
//!
//! Every decision is one script call: one round trip, one `GET`, and one `SET … PX` if anything changed, whatever the
//! number of rules. The scripts are twins of the algorithms in `tollgate-core`, and are tested against them step by
//! step: same answers, same stored bytes, same expiry.
//!
//! ```text
//!   RedisStore ─▶ request ─▶ script ─▶ link ─▶ server        one round trip
//!        │           numbers    text     ▲
//!        ▼                               └ deadline, breaker, redirects
//!     reply ─▶ Decision
//!        └ no answer ─▶ fallback: open, closed or local, by each rule's own word
//! ```

mod address;
mod bytes;
mod carry;
mod config;
mod counters;
mod definition;
pub mod doctor;
mod fallback;
pub mod gateway;
mod key;
mod ledger;
#[allow(dead_code, reason = "some of how a node is doing is told to tests only")]
mod link;
mod policies;
mod pretend;
pub mod redisson;
mod reply;
mod request;
mod scan;
mod script;
mod standing;
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
pub use pretend::PretendClock;
pub use standing::Standing;
pub use store::RedisStore;
