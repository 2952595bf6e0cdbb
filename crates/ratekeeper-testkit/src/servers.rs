//! Throw-away servers: real Redis, Valkey and Envoy processes that belong to one test.
//!
//! Every server has its own directory and port, listens on loopback only, and ends when its handle is dropped or the test
//! process ends. Starts, failovers and slot moves are awaited by polling the servers, within a stated bound, so no test
//! needs to sleep.
//!
//! - [`RedisServer`] is one server: start, kill, restart, pause, resume, command.
//! - [`Sentinels`] is a primary with two replicas, watched by three sentinels.
//! - [`Cluster`] is three primaries, with or without a replica each, and slots that move while traffic runs.
//! - [`Certificates`] and [`Acl`] set up TLS and users.
//! - [`FakeClock`] steps a server's clock forward and back.
//! - [`FaultProxy`] is a TCP proxy that loses and delays replies and closes connections on demand.
//! - [`EnvoyServer`] is a real Envoy in front of a ratekeeper server; [`http_get`] sends it requests.
//! - [`Browser`] is a Chromium that is driven over WebDriver.
//! - [`Process`] is any other program: start, kill, restart. It uses [`leashed`] and [`spawn`].
//! - [`require`] finds the binaries, or panics with the command that installs them. No test is skipped for a missing one.

mod acl;
mod browser;
mod builder;
mod cluster;
mod envoy;
mod fake_clock;
mod http;
mod parts;
mod ports;
mod process;
mod proxy;
mod redis;
mod resp;
mod sentinels;
mod spawn;
mod tls;
mod wait;

pub use acl::Acl;
pub use browser::Browser;
pub use builder::RedisBuilder;
pub use cluster::{Cluster, ClusterBuilder, SlotMove};
pub use envoy::EnvoyServer;
pub use fake_clock::FakeClock;
pub use http::{HttpReply, http_get, http_get_bytes};
pub use parts::{Binary, Part, require};
pub use process::Process;
pub use proxy::FaultProxy;
pub use redis::RedisServer;
pub use resp::{Connection, Reply};
pub use sentinels::Sentinels;
pub use spawn::{leashed, spawn};
pub use tls::{Certificates, ClientCertificate};
pub use wait::wait_until;
