//! Rate limiters on the Redis keys of other systems.
//!
//! | module | shares its keys with |
//! |---|---|
//! | [`redisson`] | Redisson's `RRateLimiter` |
//! | [`gateway`] | the token bucket of Spring Cloud Gateway and Apache ShenYu |
//!
//! The layouts are defined by those projects, so each module has separate scripts (`lua/`). Of `ratekeeper-redis` only the
//! client link is used.

mod failure;
pub mod gateway;
pub mod redisson;
