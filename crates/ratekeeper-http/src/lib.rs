//! The parts that every HTTP front end of a rate limiter needs, as plain functions on `http` types.
//!
//! - [`headers`] renders a decision as `RateLimit`, `RateLimit-Policy`, `Retry-After` and the older header fields.
//! - [`address`] finds the client's address behind a known number of proxies.
//! - [`explain`] explains a decision, with the arithmetic of its rules.
//! - [`hold_times`] estimates when a concurrency rule has a permit again.
//! - [`problem`] renders an error as `application/problem+json`.
//! - [`decision_json`] renders a decision as one line of JSON; [`json`] has the primitives for the rest of the line.
//!
//! The crate does no I/O and needs no runtime; it depends on `http` and `bytes` only. `ratekeeper-tower`, the server and the
//! command build on it.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod address;
pub mod decision_json;
pub mod explain;
pub mod headers;
pub mod hold_times;
pub mod json;
pub mod problem;

pub use address::ClientAddress;
pub use headers::{HeaderStyle, RateLimitFields};
pub use hold_times::HoldTimes;
pub use problem::ProblemDetails;
