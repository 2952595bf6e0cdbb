//! The throw-away servers do what they promise. Needs the parts that `scripts/parts` installs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the unexpected")]

mod access;
mod client;
mod cluster;
mod proxy;
mod sentinels;
mod standalone;
