//! The ratekeeper server: rule files, an engine, and three wires (HTTP, gRPC, RESP) in front of one store.
//!
//! ```text
//! HTTP, gRPC, RESP ─decode─▶ Request ─engine─▶ rulebook ─▶ store ─▶ Answer ─encode─▶ HTTP, gRPC, RESP
//! ```
//!
//! A wire translates and never names a store. The [`engine`] decides and never handles protocol bytes. Only [`wiring`]
//! names concrete stores.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
pub mod build_info;
pub mod config;
pub mod engine;
pub mod grpc;
mod header_cache;
pub mod health;
pub mod http;
mod inline_rules;
pub mod listen;
pub mod lossy_text;
pub mod request;
pub mod resp;
pub mod rulebook;
pub mod sample;
pub mod security;
pub mod server;
pub mod shutdown;
pub mod telemetry;
mod watch;
pub mod wiring;

pub use server::run;
pub use watch::{Reload, Reloaded};
