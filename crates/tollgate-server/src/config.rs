//! What a server is told when it starts. The command line fills it in; tests do so directly.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tollgate_core::Carry;
use tollgate_tower::{address::ClientAddress, headers::HeaderStyle};

use crate::{
    http::{AllowedHosts, auth::EntrySource},
    security::{RequiredSecret, Secret, TlsFiles},
    telemetry::TraceConfig,
    wiring::StorageSettings,
};

/// Everything a server is told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Rule files and directories of them; none: the sample that is built in.
    pub rules: Vec<PathBuf>,
    /// `memory`, or the address of a Redis.
    pub store: Secret,
    /// How keys are kept.
    pub storage: StorageSettings,
    /// Where HTTP is spoken.
    pub http: Option<SocketAddr>,
    /// Where Envoy's protocol is spoken.
    pub grpc: Option<SocketAddr>,
    /// Where Redis' protocol is spoken.
    pub resp: Option<SocketAddr>,
    /// Where the server is looked after: metrics, health, switches.
    pub admin: Option<SocketAddr>,
    /// Certificates of the data ports; none: plain.
    pub tls: Option<TlsFiles>,
    /// The same for the admin port.
    pub admin_tls: bool,
    /// A file of bearer tokens, and which domains each may ask about.
    pub tokens: Option<PathBuf>,
    /// The token of the admin port.
    pub admin_token: Option<Secret>,
    /// The file it came from, if it came from one: read again when it changes.
    pub admin_token_file: Option<PathBuf>,
    /// The file that the secret of `/v1/auth` came from, if it came from one: read again when it changes.
    pub auth_secret_file: Option<PathBuf>,
    /// Host names that the HTTP and admin ports answer to, besides those of this machine.
    pub allowed_hosts: AllowedHosts,
    /// How patient the listeners are.
    pub bounds: Bounds,
    /// Which header fields tell of a limit.
    pub headers: HeaderStyle,
    /// How `/v1/auth` learns whom a request is from.
    pub auth: AuthConfig,
    /// What becomes of counts when a reload changes numbers.
    pub carry: Carry,
    /// Whether limits in Envoy's form count refused requests, as envoyproxy/ratelimit does.
    pub envoy_counts_refused: bool,
    /// How often the files are looked at.
    pub look_every: Duration,
    /// Between the word to stop and the end of accepting: time for balancers to notice.
    pub stop_delay: Duration,
    /// Where traces go; none are made unless this is said, and they need the feature `otel`.
    pub traces: Option<TraceConfig>,
}

/// How much anybody may ask of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections open at once, on each port.
    pub connections: usize,
    /// From the connection to its first byte, and for a TLS handshake.
    pub first_byte: Duration,
    /// For the head of a request, and for its body.
    pub request: Duration,
    /// Between requests on a connection.
    pub idle: Duration,
    /// The head of a request.
    pub header_bytes: usize,
    /// The body of a request.
    pub body_bytes: usize,
    /// Requests under way on one HTTP/2 connection.
    pub streams: u32,
    /// What requests under way and answers not yet sent may hold, on each HTTP or gRPC port.
    pub pending_bytes: usize,
    /// For an answer that the peer does not take, or takes too slowly.
    pub stall: Duration,
    /// From the word to stop to the end, whatever is still under way.
    pub drain: Duration,
}

/// How `/v1/auth` learns whom a request is from.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// The domain, if the proxy names none.
    pub domain: Option<String>,
    /// The entries of the descriptor, if the proxy names none; none at all: the client's address is the key.
    pub entries: Vec<(String, EntrySource)>,
    /// Where the client's address is found.
    pub address: ClientAddress,
    /// What a refusal is told with, if the proxy does not say; none: 429, and 503 while the store cannot decide.
    pub deny_status: Option<u16>,
    /// What a proxy has to present in [`AUTH_SECRET`](crate::http::auth::AUTH_SECRET), if anything.
    pub secret: RequiredSecret,
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
            carry: Carry::default(),
            envoy_counts_refused: true,
            look_every: Duration::from_millis(500),
            stop_delay: Duration::ZERO,
            traces: None,
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
            pending_bytes: 24 << 20,
            stall: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}

impl Default for AuthConfig {
    fn default() -> Self {
        // Whoever asks here is a proxy, and it alone is trusted to say who called it.
        Self {
            domain: None,
            entries: Vec::new(),
            address: ClientAddress::behind(1),
            deny_status: None,
            secret: RequiredSecret::default(),
        }
    }
}
