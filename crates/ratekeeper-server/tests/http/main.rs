//! The HTTP wire and the admin port, over real connections.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod admin;
mod admin_bad_input;
mod answers;
mod auth;
mod bad_input;
mod client;
mod control_frames;
mod fields;
mod fixture;
mod flood;
mod frames;
mod head_method;
mod http2;
mod ids;
mod inline_rules;
mod keep_alive;
mod malformed;
mod nginx;
mod openapi;
mod outage;
mod reload;
mod security;
mod several;
mod sites;
mod stopping;
mod store_metrics;
mod tls;
mod tls_clients;
mod unread;
