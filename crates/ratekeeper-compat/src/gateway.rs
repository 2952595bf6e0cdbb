//! The token bucket of Spring Cloud Gateway and Apache ShenYu, on their Redis keys.
//!
//! A service in Rust shares the tokens of a gateway in Java: next to it, behind it, or in its place.
//!
//! ```text
//!   GatewayBucket ─▶ IdRule ─▶ link ─▶ lua/gateway/bucket.lua
//!     limits          keys
//! ```
//!
//! ```no_run
//! use ratekeeper_compat::gateway::{GatewayBucket, GatewayLimits, IdRule};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // As in `redis-rate-limiter.replenishRate: 10, burstCapacity: 20` of the route `search`.
//! let bucket = GatewayBucket::connect("redis://127.0.0.1:6379", GatewayLimits::new(10.0, 20.0)?)
//!     .await?
//!     .id_rule(IdRule::Spring { route: "search".to_owned() });
//! let answer = bucket.check("user-42").await?;
//! if !answer.allowed {
//!     println!("429, retry after {:?}", answer.retry_after);
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod bucket;
mod error;
mod id_rule;
mod limits;

pub use self::{
    answer::GatewayAnswer,
    bucket::{GatewayBucket, GatewayClock, GatewayConfig, Grain},
    error::{GatewayError, LimitsError},
    id_rule::IdRule,
    limits::GatewayLimits,
};
