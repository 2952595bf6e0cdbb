//! Rate limiting as tower middleware.
//!
//! - [`RateLimitLayer`] limits the services of a server: axum, hyper, tonic.
//! - [`client::ThrottleLayer`] makes a client wait for permits and obey `Retry-After`.
//! - [`key`] extracts the key of a request; [`address`] finds the client's address behind proxies.
//! - [`headers`] has the styles of `RateLimit` header fields; [`Refusal`] becomes problem+json or a gRPC status.
//!
//! Both layers ask a [`RateLimiter`]. `ratekeeper::Limiter` is one with the feature `tower` of `ratekeeper`, which also exports
//! this crate as `ratekeeper::tower`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod body;
mod call;
pub mod client;
mod fields;
pub mod key;
mod layer;
mod limiter;
mod permit;
mod refusal;
mod service;
mod settings;

pub use body::ResponseBody;
pub use layer::RateLimitLayer;
pub use limiter::{RateLimiter, WaitError};
pub use ratekeeper_http::{ClientAddress, HeaderStyle, ProblemDetails, address, headers};
pub use refusal::Refusal;
pub use service::{RateLimit, ResponseFuture};
pub use settings::{OnMissingKey, OnStoreError};

/// The guide's code, compiled and run with the tests.
#[cfg(all(doctest, feature = "axum", feature = "retry"))]
#[doc = include_str!("../../../docs/tower.md")]
struct Guide;
