//! Fault tests: bounds of the Redis store while servers, connections and replies fail.
//!
//! Each test sends traffic through a store, injects a fault, and passes the record of the run to the [`checker`]. By
//! default each fault occurs a few times; `scripts/faults` repeats it more often.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what a fault cost is worth reading")]

mod charge;
mod checker;
mod cluster;
mod connections;
mod crash;
mod failover;
mod memory;
mod migration;
mod scripts;
mod split;
mod stall;
mod swallow;
mod traffic;

use std::{env, time::Duration};

/// Repetitions of each fault.
fn cycles() -> u64 {
    number("RATEKEEPER_FAULT_CYCLES", 2)
}

/// Calls between two faults.
fn calls() -> u64 {
    number("RATEKEEPER_FAULT_CALLS", 200)
}

fn number(variable: &str, usual: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; a number is wanted")),
        Err(_) => usual,
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Tolerance of every time bound, for a machine under load.
const SLACK: Duration = Duration::from_millis(500);
/// Timeout of waits that end much earlier unless something is broken.
const TIMEOUT: Duration = Duration::from_secs(20);
