//! What tollgate's own tests stand on: a naive oracle, seeded chance, a key to play with, and the suite every store
//! passes.
//!
//! - [`oracle`] answers the same questions as the core, slowly and in another way, so that the two can be compared.
//! - [`random`] makes quotas, costs, moments and waits that sit on edges more often than luck would.
//! - [`gate`] is one key under one policy on a clock held by the test.
//! - [`conformance`] asks a store what any store must answer.
//! - [`interop`] runs Redisson in Java, and takes scripts out of jars.
//! - [`servers`] starts real Redis and Valkey servers to be used up by one test, and a proxy that breaks connections.
//!
//! For tests only: everything here may panic, and says why when it does.

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
pub mod oracle;
pub mod random;
pub mod servers;

pub use block_on::block_on;
