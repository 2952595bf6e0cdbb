//! Throw-away servers: real Redis, Valkey and Envoy processes that belong to one test.
//!
//! Every server has a directory and a port of its own, listens on loopback only, and is gone when its handle is dropped
//! or the test process dies. Whatever takes time (starting, failing over, moving a slot) is waited for by asking the
//! servers, within a stated bound, so no test needs to sleep.
//!
//! - [`RedisServer`] is one server: start, kill, restart, pause, resume, ask.
//! - [`Sentinels`] is a primary with two replicas, watched by three sentinels.
//! - [`Cluster`] is three primaries, with or without a replica each, and slots that move while traffic runs.
//! - [`Certificates`] and [`Acl`] close a server's door in the ways a client must be able to open.
//! - [`FakeClock`] turns a server's clock forth and back.
//! - [`FaultProxy`] stands between a client and a server and loses, delays, holds and cuts.
//! - [`EnvoyServer`] is a proxy in front of a server of ours, asked with [`http_get`].
//! - [`Browser`] is a Chromium that clicks and types as a person would.
//! - [`Process`] is any other program: start, kill, start again. [`leashed`] and [`spawn`] are for what it does not do.
//! - [`require`] finds the binaries behind all this, or says how to get them. A missing part fails a test; nothing skips.

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
