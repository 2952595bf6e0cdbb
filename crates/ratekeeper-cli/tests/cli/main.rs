//! The `ratekeeper` binary, run as a child process.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a fixture that fails stops the test")]

mod check_and_top;
mod config;
mod conformance;
mod deployment_files;
mod doc_page;
mod docs;
mod doctor;
mod doctor_findings;
mod explain;
mod fixture;
mod health;
mod input_errors;
mod log_flood;
mod memory_bound;
mod memory_full;
#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu"))]
mod memory_return;
mod notify;
mod plots;
mod redis;
mod secrets;
mod serve;
mod server_pages;
mod server_process;
mod signals;
mod simulate;
mod tls;
