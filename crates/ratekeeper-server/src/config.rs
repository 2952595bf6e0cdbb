//! Server configuration. The command line fills it in; tests do so directly.

mod allowed_hosts;
mod auth;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ratekeeper_core::OnQuotaChange;
use ratekeeper_http::HeaderStyle;

pub use self::{
    allowed_hosts::AllowedHosts,
    auth::{AuthConfig, EntrySource, deny_status, parse_entry},
};
use crate::{
    security::{Secret, TlsFiles},
    telemetry::{DecisionLogConfig, TraceConfig},
    wiring::StorageSettings,
};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Rule files and directories of rule files. Empty: the built-in sample rules.
    pub rules: Vec<PathBuf>,
    /// `memory`, or the address of a Redis server. A secret, because the address may contain a password.
    pub store: Secret,
    /// Settings of the store.
    pub storage: StorageSettings,
    /// Address of the HTTP port.
    pub http: Option<SocketAddr>,
    /// Address of the gRPC port (Envoy's rate limit protocol).
    pub grpc: Option<SocketAddr>,
    /// Address of the RESP port (the Redis protocol).
    pub resp: Option<SocketAddr>,
    /// Address of the admin port: metrics, health checks, switches.
    pub admin: Option<SocketAddr>,
    /// Certificates of the data ports. `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Whether the admin port uses the same certificates.
    pub admin_tls: bool,
    /// The file of bearer tokens and their domains. `None`: no token is required.
    pub tokens: Option<PathBuf>,
    /// The token of the admin port.
    pub admin_token: Option<Secret>,
    /// The file of the admin token, if it comes from one. Reloaded when it changes.
    pub admin_token_file: Option<PathBuf>,
    /// The file of the secret of `/v1/auth`, if it comes from one. Reloaded when it changes.
    pub auth_secret_file: Option<PathBuf>,
    /// Host names that the HTTP and admin ports accept in addition to those of the machine.
    pub allowed_hosts: AllowedHosts,
    /// Timeouts and size limits of the listeners.
    pub bounds: Bounds,
    /// Style of the rate limit header fields.
    pub headers: HeaderStyle,
    /// Settings of `/v1/auth`.
    pub auth: AuthConfig,
    /// Migration of stored state when a reload changes quotas.
    pub carry: OnQuotaChange,
    /// Whether limits in the Envoy format count refused requests, as envoyproxy/ratelimit does.
    pub envoy_counts_refused: bool,
    /// Poll interval of the file watcher.
    pub poll_interval: Duration,
    /// Delay between the shutdown signal and the end of accepting, so that load balancers see the failing health check.
    pub stop_delay: Duration,
    /// Export of traces. `None`: no traces. Requires the feature `otel`.
    pub traces: Option<TraceConfig>,
    /// The decision log. `None`: decisions are not logged.
    pub decision_log: Option<DecisionLogConfig>,
}

/// Timeouts and size limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of open connections per port.
    pub connections: usize,
    /// Timeout of the TLS handshake, and of the first byte of a connection.
    pub first_byte: Duration,
    /// Timeout of the header block of a request, and of its body.
    pub request: Duration,
    /// Idle timeout of a connection.
    pub idle: Duration,
    /// Maximum size of a header block.
    pub header_bytes: usize,
    /// Maximum size of a request body.
    pub body_bytes: usize,
    /// Maximum number of concurrent streams per HTTP/2 connection.
    pub streams: u32,
    /// Memory budget of in-flight requests and unsent responses, per HTTP or gRPC port. The admin port has half of it.
    pub pending_bytes: usize,
    /// Stall time: how long a peer may take to read a part of a response.
    pub stall: Duration,
    /// Timeout of draining: requests still in flight after it are aborted.
    pub drain: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let loopback = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Self {
            rules: Vec::new(),
            store: Secret::new("memory"),
            storage: StorageSettings::default(),
            http: loopback(8080),
            grpc: loopback(8081),
            resp: loopback(6380),
            admin: loopback(9090),
            tls: None,
            admin_tls: false,
            tokens: None,
            admin_token: None,
            admin_token_file: None,
            auth_secret_file: None,
            allowed_hosts: AllowedHosts::default(),
            bounds: Bounds::default(),
            headers: HeaderStyle::default(),
            auth: AuthConfig::default(),
            carry: OnQuotaChange::default(),
            envoy_counts_refused: true,
            poll_interval: Duration::from_millis(500),
            stop_delay: Duration::ZERO,
            traces: None,
            decision_log: None,
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 10_000,
            first_byte: Duration::from_secs(10),
            request: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            header_bytes: 16 << 10,
            body_bytes: 64 << 10,
            streams: 256,
            pending_bytes: 16 << 20,
            stall: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}
