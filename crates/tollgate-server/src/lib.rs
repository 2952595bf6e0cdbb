//! The tollgate server: rule files in front, a store behind, and several wires to ask through.
//!
//! ```text
//! HTTP, gRPC, RESP ─decode─▶ Question ─engine─▶ rulebook ─▶ store ─▶ Answer ─encode─▶ HTTP, gRPC, RESP
//! ```
//!
//! A wire translates and never names a store; the [`engine`] decides and never sees a byte; [`wiring`] alone knows which
//! store it is.

pub mod config;
pub mod engine;
pub mod http;
pub mod line;
pub mod listen;
pub mod resp;
pub mod rulebook;
pub mod security;
pub mod shutdown;
pub mod telemetry;
pub mod wiring;
