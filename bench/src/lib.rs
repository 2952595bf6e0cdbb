//! What the benchmark programs share: the servers that are compared, each started as people start it.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should stop")]

pub mod contestants;
