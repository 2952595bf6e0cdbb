//! Integration tests of the RESP wire: bytes, real clients, redis-cell, hostile input.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod access;
mod bad_input;
mod bytes;
mod cell;
mod delete;
mod documented;
mod ids;
mod library;
mod mutations;
mod pipelines;
mod several;
mod shared;
mod support;
mod take;
mod tools;
mod transactions;
