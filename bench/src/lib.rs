//! Shared by the benchmark programs: the servers that are compared, with default settings.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should stop")]

pub mod peers;
pub mod wakers;
