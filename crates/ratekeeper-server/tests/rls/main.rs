//! Integration tests of the gRPC wire: Envoy's rate limit service over real connections.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod amounts;
mod answers;
mod bad_input;
mod connections;
mod docs;
mod frames;
mod headers;
mod helpers;
mod match_all;
mod quota_mode;
mod requested;
mod tokens;
mod untrusted_values;
mod wildcards;
