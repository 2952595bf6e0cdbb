//! Flags of `ratekeeper serve`, each also a `RATEKEEPER_…` variable.

mod config;

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::BoolishValueParser};
use ratekeeper_http::{HeaderStyle, address::X_FORWARDED_FOR};
use ratekeeper_server::config::{EntrySource, deny_status, parse_entry};

use crate::argument::{ListenAddress, listen_address, prefix};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Rule files, or directories of them; reloaded when they change. Without this, the built-in sample rules.
    #[arg(long, env = "RATEKEEPER_RULES", value_name = "FILE|DIR", value_delimiter = ',')]
    rules: Vec<PathBuf>,
    /// The store: `memory`, or redis://…, redis+cluster://…, redis+sentinel://… (rediss for TLS).
    #[arg(
        long,
        env = "RATEKEEPER_STORE",
        value_name = "memory|redis://…",
        default_value = "memory",
        hide_env_values = true
    )]
    store: String,
    /// The store, from the first line of a file: for addresses that contain a password.
    #[arg(long, env = "RATEKEEPER_STORE_FILE", value_name = "FILE", conflicts_with = "store")]
    store_file: Option<PathBuf>,
    /// Listen address of HTTP: an address, a port on 127.0.0.1, or `off`.
    #[arg(long, env = "RATEKEEPER_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    http: ListenAddress,
    /// Listen address of Envoy's rate limit service (gRPC).
    #[arg(long, env = "RATEKEEPER_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = listen_address)]
    grpc: ListenAddress,
    /// Listen address of the Redis protocol (RESP).
    #[arg(long, env = "RATEKEEPER_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380", value_parser = listen_address)]
    resp: ListenAddress,
    /// Listen address of the admin port: dashboard, metrics, health checks, switches.
    #[arg(long, env = "RATEKEEPER_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = listen_address)]
    admin: ListenAddress,

    /// The certificate of the data ports, as PEM; reloaded when it changes.
    #[arg(long, env = "RATEKEEPER_TLS_CERT", value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "RATEKEEPER_TLS_KEY", value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,
    /// Certificate authority for client certificates; clients without one are rejected.
    #[arg(
        long,
        env = "RATEKEEPER_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Security"
    )]
    tls_client_ca: Option<PathBuf>,
    /// TLS on the admin port as well.
    #[arg(
        long,
        env = "RATEKEEPER_ADMIN_TLS",
        value_parser = BoolishValueParser::new(),
        requires_if("true", "tls_cert"),
        help_heading = "Security"
    )]
    admin_tls: bool,
    /// Tokens for the data ports: one `name token domains` per line.
    #[arg(long, env = "RATEKEEPER_TOKENS", value_name = "FILE", help_heading = "Security")]
    tokens: Option<PathBuf>,
    /// Token of the admin port: the first line of a file, or the variable RATEKEEPER_ADMIN_TOKEN.
    #[arg(long, env = "RATEKEEPER_ADMIN_TOKEN_FILE", value_name = "FILE", help_heading = "Security")]
    admin_token_file: Option<PathBuf>,
    /// Secret that a proxy has to send as X-Ratekeeper-Secret to /v1/auth: the first line of a file, or the variable
    /// RATEKEEPER_AUTH_SECRET.
    #[arg(long, env = "RATEKEEPER_AUTH_SECRET_FILE", value_name = "FILE", help_heading = "Security")]
    auth_secret_file: Option<PathBuf>,
    /// Host names that the HTTP and admin ports answer to. Ports on loopback always answer to localhost and loopback
    /// addresses; other ports check names only if some are given. `*` allows every name.
    #[arg(
        long,
        env = "RATEKEEPER_ALLOWED_HOSTS",
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Security"
    )]
    allowed_hosts: Vec<String>,
    /// Maximum number of connections on each port.
    #[arg(
        long,
        env = "RATEKEEPER_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Security"
    )]
    max_connections: u32,

    /// Header fields in responses: ietf, ietf-06, x-ratelimit, ietf+x-ratelimit or none.
    #[arg(long, env = "RATEKEEPER_HEADERS", value_name = "STYLE", default_value = "ietf", help_heading = "HTTP")]
    headers: HeaderStyle,
    /// Default domain of /v1/auth.
    #[arg(long, env = "RATEKEEPER_AUTH_DOMAIN", value_name = "DOMAIN", help_heading = "HTTP")]
    auth_domain: Option<String>,
    /// Default descriptor entry of /v1/auth; sources are address, header:NAME, path, method,
    /// host (each of the three also with the header it is in, such as path:x-original-uri) and value:TEXT.
    #[arg(long, env = "RATEKEEPER_AUTH_ENTRY", value_name = "NAME:SOURCE", value_delimiter = ',', value_parser = parse_entry, help_heading = "HTTP")]
    auth_entry: Vec<(String, EntrySource)>,
    /// Number of trusted proxies that a request to /v1/auth has passed, the calling one included: as many entries of the
    /// forwarding header are trusted.
    #[arg(long, env = "RATEKEEPER_AUTH_PROXIES", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=32), help_heading = "HTTP")]
    auth_proxies: u8,
    /// The forwarding header that those proxies write.
    #[arg(long, env = "RATEKEEPER_AUTH_HEADER", value_name = "NAME", default_value_t = X_FORWARDED_FOR.as_str().to_owned(), help_heading = "HTTP")]
    auth_header: String,
    /// Prefix length by which IPv6 addresses are grouped.
    #[arg(long, env = "RATEKEEPER_IPV6_PREFIX", value_name = "BITS", default_value_t = 64, value_parser = clap::value_parser!(u8).range(..=128), help_heading = "HTTP")]
    ipv6_prefix: u8,
    /// Default status of a denial on /v1/auth; nginx accepts only 401 and 403. Without this, 429, and 503 if the store is
    /// unreachable and a rule fails closed.
    #[arg(long, env = "RATEKEEPER_AUTH_DENY_STATUS", value_name = "STATUS", value_parser = denial_status, help_heading = "HTTP")]
    auth_deny_status: Option<u16>,

    /// Memory for keys and their states, in MiB.
    #[arg(long, env = "RATEKEEPER_MEMORY", value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Store")]
    memory: u32,
    /// What happens to new keys while that memory is full of limited keys.
    #[arg(long, env = "RATEKEEPER_MEMORY_FULL", value_enum, default_value_t, help_heading = "Store")]
    memory_full: MemoryFull,
    /// Prefix of key names in Redis.
    #[arg(long, env = "RATEKEEPER_PREFIX", value_name = "PREFIX", default_value = "ratekeeper", help_heading = "Store", value_parser = prefix)]
    prefix: String,
    /// Number of processes that share the limits: each enforces its share while the store is unreachable.
    #[arg(long, env = "RATEKEEPER_NODES", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Store")]
    nodes: u32,
    /// Fraction of that share, from 0 to 1, that is available before the store has answered for the first time: a process
    /// restarted during an outage does not know what it granted before.
    #[arg(long, env = "RATEKEEPER_LOCAL_START", value_name = "FRACTION", default_value_t = 0.0, value_parser = ratio, help_heading = "Store")]
    local_start: f64,
    /// Deadline of a decision in Redis, in milliseconds. The default timeout of Envoy is 20.
    #[arg(long, env = "RATEKEEPER_STORE_DEADLINE", value_name = "MS", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Store")]
    store_deadline: u32,
    /// What happens to a value in Redis under a key of ours that cannot be read: not written by ratekeeper, damaged, or of
    /// rules that are not known. Each is logged as a warning, within a bound. Values that are no strings are always left alone.
    #[arg(long, env = "RATEKEEPER_FOREIGN_VALUES", value_enum, default_value_t, help_heading = "Store")]
    foreign_values: ForeignValues,
    /// What happens to counts when a reload changes a quota.
    #[arg(long, env = "RATEKEEPER_ON_CHANGE", value_enum, default_value_t, help_heading = "Store")]
    on_change: OnChange,

    /// Limits in Envoy's format charge all descriptors of a request or, if it is refused, none. The default counts refused
    /// requests, as envoyproxy/ratelimit does; its variable STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT also sets this.
    #[arg(
        long,
        env = "RATEKEEPER_ENVOY_ALL_OR_NONE",
        value_parser = BoolishValueParser::new(),
        help_heading = "Store"
    )]
    envoy_all_or_none: bool,

    /// Format of the log.
    #[arg(long, env = "RATEKEEPER_LOG_FORMAT", value_enum, default_value_t, help_heading = "Process")]
    pub(super) log_format: LogFormat,
    /// Log level: error, warn, info, debug, or a filter such as `info,ratekeeper_server::http=debug`.
    #[arg(long, env = "RATEKEEPER_LOG", value_name = "LEVEL", default_value = "info", help_heading = "Process")]
    pub(super) log: String,
    /// Log decisions as JSON lines to this file, or to standard error (-): every refusal, and a sample of admissions.
    #[arg(long, env = "RATEKEEPER_DECISION_LOG", value_name = "FILE")]
    pub(super) decision_log: Option<PathBuf>,
    /// Share of admissions in the decision log, 0 to 1.
    #[arg(
        long,
        env = "RATEKEEPER_DECISION_LOG_SAMPLE",
        value_name = "SHARE",
        default_value_t = 0.01,
        value_parser = ratio
    )]
    pub(super) decision_log_sample: f64,
    /// Most lines per second in the decision log; those beyond are dropped and counted.
    #[arg(long, env = "RATEKEEPER_DECISION_LOG_RATE", value_name = "LINES", default_value_t = 1000)]
    pub(super) decision_log_rate: u32,
    /// Send traces to this OTLP endpoint (gRPC), such as http://127.0.0.1:4317. Needs a build with the feature `otel`,
    /// which also reads OTEL_EXPORTER_OTLP_ENDPOINT and the related variables.
    #[arg(long, env = "RATEKEEPER_OTEL", value_name = "ENDPOINT", help_heading = "Process", hide_env_values = true)]
    pub(super) otel: Option<String>,
    /// Fraction of requests traced if the caller has not decided, from 0 to 1. The default is OTEL_TRACES_SAMPLER, and
    /// without it 1.
    #[arg(long, env = "RATEKEEPER_OTEL_RATIO", value_name = "RATIO", help_heading = "Process", value_parser = ratio)]
    pub(super) otel_ratio: Option<f64>,
    /// Seconds between the stop signal and the end of accepting connections, for load balancers to notice /readyz.
    #[arg(long, env = "RATEKEEPER_STOP_DELAY", value_name = "SECONDS", default_value_t = 0, help_heading = "Process")]
    stop_delay: u32,
    /// Seconds that in-flight requests have to finish after that.
    #[arg(long, env = "RATEKEEPER_DRAIN", value_name = "SECONDS", default_value_t = 10, help_heading = "Process")]
    drain: u32,
}

/// What happens to new keys while the memory is full of limited keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum MemoryFull {
    /// New keys share one count per policy and shard, so almost all are refused.
    #[default]
    Refuse,
    /// New keys are admitted without being counted.
    Admit,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What happens to counts when a quota changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnChange {
    /// Permits that were used stay used.
    #[default]
    Keep,
    /// Used permits are scaled to the new limit.
    Scale,
    /// All keys start in the initial state.
    Fresh,
}

/// What happens to a value in Redis that cannot be read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ForeignValues {
    /// It stays, and the key's rules are decided by their `on_store_failure`.
    #[default]
    Keep,
    /// It is replaced by a key that has used all its permits.
    Exhausted,
    /// It is replaced by a key in its initial state.
    Initial,
}

fn denial_status(word: &str) -> Result<u16, String> {
    let status = word.parse().ok().filter(|status| deny_status(*status).is_some());
    status.ok_or_else(|| "not a status of a denial; use 401, 403, 429 or 503".to_owned())
}

fn ratio(word: &str) -> Result<f64, String> {
    let ratio = word.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "use a number from 0 (none) to 1 (all), such as 0.01".to_owned())
}
