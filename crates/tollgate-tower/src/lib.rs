//! Rate limiting as tower middleware, and what every HTTP wire of tollgate shares.
//!
//! - [`RateLimitLayer`] puts a limit in front of a server's services: axum, hyper, tonic.
//! - [`client::PoliteLayer`] makes a client wait its turn and obey `Retry-After`.
//! - [`key`] finds out who is asking, and [`address`] does when proxies stand in between.
//! - [`headers`] renders a decision as `RateLimit`, `RateLimit-Policy`, `Retry-After` and their older kin; [`answer`] renders
//!   a refusal as problem+json or a gRPC status.
//!
//! The limiter itself is a [`Gate`]: `tollgate::Limiter` with that crate's feature `tower`, which also brings this crate along
//! as `tollgate::tower`.

pub mod address;
pub mod answer;
mod body;
pub mod client;
mod future;
mod gate;
pub mod headers;
pub mod key;
mod layer;
mod place;
mod service;

pub use address::ClientAddress;
pub use answer::Refused;
pub use body::ResponseBody;
pub use future::ResponseFuture;
pub use gate::{Gate, TurnError};
pub use headers::HeaderStyle;
pub use layer::{RateLimitLayer, Undecided, WithoutKey};
pub use service::RateLimit;

/// The guide's code, compiled and run with the tests.
#[cfg(all(doctest, feature = "axum", feature = "retry"))]
#[doc = include_str!("../../../docs/tower.md")]
struct Guide;
