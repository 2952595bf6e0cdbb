//! A real Envoy with the configuration of `examples/envoy`, asking a process of ours about every request.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod docs;
mod edge;
mod limits;
mod outage;
mod strangers;
