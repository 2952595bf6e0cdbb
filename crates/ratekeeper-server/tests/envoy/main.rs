//! Integration tests with a real Envoy, in the configuration of `examples/envoy`.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod docs;
mod edge;
mod limits;
mod outage;
mod untrusted_values;
