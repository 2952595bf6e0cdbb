//! Observability: the dashboard in a browser, and traces received by a collector in this process. The server is the
//! `ratekeeper` command.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod collector_outage;
mod dashboard;
mod dashboard_image;
mod server;
#[cfg(feature = "otel")]
mod spans;
