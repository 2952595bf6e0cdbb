//! What is promised while things break, checked while they do.
//!
//! Every test sends traffic through a store, breaks something under it, and hands the books to the [`checker`]. The
//! ordinary run breaks everything once or twice; `scripts/faults` does it as often as there is time for.

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

/// How often each fault happens.
fn cycles() -> u64 {
    number("TOLLGATE_FAULT_CYCLES", 2)
}

/// How many calls are made between two faults.
fn calls() -> u64 {
    number("TOLLGATE_FAULT_CALLS", 200)
}

fn number(variable: &str, usual: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; a number is wanted")),
        Err(_) => usual,
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// What a machine that also compiles may add to anything.
const SLACK: Duration = Duration::from_millis(500);
/// Far beyond anything that works.
const PATIENCE: Duration = Duration::from_secs(20);
