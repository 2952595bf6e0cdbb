//! Traces of the real server, received by a collector in this process that speaks the real protocol.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod away;
mod collector;
mod server;
mod spans;
