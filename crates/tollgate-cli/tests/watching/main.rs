//! What an operator watches: the dashboard in a real browser, and traces received by a collector in this process. The
//! server is the real command.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

#[cfg(feature = "otel")]
mod away;
#[cfg(feature = "otel")]
mod collector;
mod dashboard;
mod server;
#[cfg(feature = "otel")]
mod spans;
