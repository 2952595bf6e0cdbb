//! gRPC: Envoy's rate limit service, with health and reflection beside it.
//!
//! ```text
//! HTTP/2 ─serve─▶ doors ─▶ service ─decode─▶ Question ─engine─▶ Answer ─encode─▶ RateLimitResponse
//! ```
//!
//! - [`wire`] has the messages, made from `proto/`.
//! - `decode` and `encode` translate; nothing is decided there.
//! - `service` asks: what is taken in one step, all or none; what is given back after it.
//! - `doors` sends each call to its service, within bounds; `serve` keeps connections within theirs.

mod decode;
mod doors;
mod encode;
mod metadata;
mod serve;
mod service;
mod settings;
pub mod wire;

pub use serve::serve;
pub use settings::GrpcSettings;
