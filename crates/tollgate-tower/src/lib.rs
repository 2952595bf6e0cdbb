//! Rate limiting as tower middleware, and what every HTTP wire of tollgate shares.
//!
//! - [`headers`] renders a decision as `RateLimit`, `RateLimit-Policy`, `Retry-After` and their older kin.
//! - [`address`] finds out who is asking when proxies stand in between.

pub mod address;
pub mod headers;
