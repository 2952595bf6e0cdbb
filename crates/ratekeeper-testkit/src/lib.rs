//! Test support for ratekeeper: an oracle, seeded generators, a fixture for one key, the conformance suite of stores,
//! and throw-away servers.
//!
//! - [`oracle`] decides the same requests as the core with slow, obvious algorithms, for comparison.
//! - [`random`] generates quotas, costs, times and waits, with many boundary cases.
//! - [`gate`] is one key under one policy on a manual clock.
//! - [`conformance`] checks what every store must decide.
//! - [`LogLines`] captures the log of a test.
//! - [`interop`] runs Redisson in Java, and reads scripts from jars.
//! - [`servers`] starts real Redis and Valkey servers for one test, and a proxy that breaks connections.
//!
//! For tests only: everything here may panic, with a message that states the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper that meets the unexpected should stop the test"
)]

mod block_on;
pub mod conformance;
pub mod gate;
pub mod interop;
mod log_lines;
pub mod oracle;
pub mod random;
pub mod servers;

pub use block_on::block_on;
pub use log_lines::LogLines;
