//! The real binary, run as a user would.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod abuse;
mod asking;
mod bounds;
mod config;
mod deployed;
mod desk;
mod docs;
mod doctor;
mod explain;
mod mistakes;
mod page;
mod picture;
mod redis;
mod running;
mod secrets;
mod serve;
mod server_pages;
mod signals;
mod simulate;
mod tls;
