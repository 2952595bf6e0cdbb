//! The tollgate server: rule files in front, a store behind, and several wires to ask through.
//!
//! ```text
//! HTTP, gRPC, RESP ─decode─▶ Question ─engine─▶ rulebook ─▶ store ─▶ Answer ─encode─▶ HTTP, gRPC, RESP
//! ```
//!
//! A wire translates and never names a store; the [`engine`] decides and never sees a byte; [`wiring`] alone knows which
//! store it is.

pub mod admin;
pub mod config;
pub mod engine;
mod fields;
pub mod grpc;
pub mod health;
pub mod http;
pub mod line;
pub mod listen;
mod outage;
pub mod resp;
pub mod rulebook;
pub mod sample;
pub mod security;
pub mod server;
pub mod shutdown;
pub mod telemetry;
pub mod text;
mod watch;
pub mod wiring;

pub use server::run;
pub use watch::{Reload, Reloaded};
