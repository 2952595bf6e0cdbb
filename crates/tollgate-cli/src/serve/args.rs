//! What can be said to a server, each also as a `TOLLGATE_…` variable.

use std::{env::VarError, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::BoolishValueParser};
use tollgate_core::Carry;
use tollgate_server::{
    config::{AuthConfig, Bounds, ServerConfig},
    http::{
        AllowedHosts,
        auth::{EntrySource, deny_status, parse_entry},
    },
    security::{RequiredSecret, Secret, TlsFiles},
    wiring::{StorageSettings, WhenFull},
};
use tollgate_tower::{
    address::{ClientAddress, X_FORWARDED_FOR},
    headers::HeaderStyle,
};

use super::traces;
use crate::{cli::prefix, report::Failure};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Rule files, or directories of them; read again when they change. None: the sample that is built in.
    #[arg(long, env = "TOLLGATE_RULES", value_name = "FILE|DIR", value_delimiter = ',')]
    rules: Vec<PathBuf>,
    /// Where limits are kept: `memory`, or redis://…, redis+cluster://…, redis+sentinel://… (rediss for TLS).
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        value_name = "memory|redis://…",
        default_value = "memory",
        hide_env_values = true
    )]
    store: String,
    /// The same from the first line of a file, for addresses that hold a password.
    #[arg(long, env = "TOLLGATE_STORE_FILE", value_name = "FILE", conflicts_with = "store")]
    store_file: Option<PathBuf>,
    /// Where HTTP is spoken: an address, a port on 127.0.0.1, or `off`.
    #[arg(long, env = "TOLLGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = door)]
    http: Door,
    /// Where Envoy's rate limit protocol is spoken.
    #[arg(long, env = "TOLLGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = door)]
    grpc: Door,
    /// Where Redis' protocol is spoken.
    #[arg(long, env = "TOLLGATE_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380", value_parser = door)]
    resp: Door,
    /// Where the server is looked after: dashboard, metrics, health, switches.
    #[arg(long, env = "TOLLGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = door)]
    admin: Door,

    /// The certificate of the data ports, as PEM; read again when it changes.
    #[arg(long, env = "TOLLGATE_TLS_CERT", value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "TOLLGATE_TLS_KEY", value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,
    /// The authority of clients: nobody without a certificate of its is let in.
    #[arg(long, env = "TOLLGATE_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_client_ca: Option<PathBuf>,
    /// The admin port speaks TLS as well.
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_TLS",
        value_parser = BoolishValueParser::new(),
        requires_if("true", "tls_cert"),
        help_heading = "Security"
    )]
    admin_tls: bool,
    /// Who may ask on the data ports: one `name token domains` a line.
    #[arg(long, env = "TOLLGATE_TOKENS", value_name = "FILE", help_heading = "Security")]
    tokens: Option<PathBuf>,
    /// The token of the admin port; a file's first line, or the variable TOLLGATE_ADMIN_TOKEN.
    #[arg(long, env = "TOLLGATE_ADMIN_TOKEN_FILE", value_name = "FILE", help_heading = "Security")]
    admin_token_file: Option<PathBuf>,
    /// What a proxy has to send as X-Tollgate-Secret at /v1/auth; a file's first line, or the variable
    /// TOLLGATE_AUTH_SECRET.
    #[arg(long, env = "TOLLGATE_AUTH_SECRET_FILE", value_name = "FILE", help_heading = "Security")]
    auth_secret_file: Option<PathBuf>,
    /// Host names that the HTTP and admin ports answer to. Ports on loopback always answer to localhost and loopback
    /// addresses; other ports check names only if some are given. `*` allows every name.
    #[arg(long, env = "TOLLGATE_ALLOWED_HOSTS", value_name = "NAME", value_delimiter = ',', help_heading = "Security")]
    allowed_hosts: Vec<String>,
    /// Connections at once, on each port.
    #[arg(
        long,
        env = "TOLLGATE_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Security"
    )]
    max_connections: u32,

    /// Which header fields tell of a limit: ietf, ietf-06, x-ratelimit, ietf+x-ratelimit or none.
    #[arg(long, env = "TOLLGATE_HEADERS", value_name = "STYLE", default_value = "ietf", help_heading = "HTTP")]
    headers: HeaderStyle,
    /// The domain of /v1/auth, where the proxy names none.
    #[arg(long, env = "TOLLGATE_AUTH_DOMAIN", value_name = "DOMAIN", help_heading = "HTTP")]
    auth_domain: Option<String>,
    /// An entry of /v1/auth's descriptor, where the proxy names none; sources are address, header:NAME, path, method,
    /// host (each of the three also with the header it is in, such as path:x-original-uri) and value:TEXT.
    #[arg(long, env = "TOLLGATE_AUTH_ENTRY", value_name = "NAME:SOURCE", value_delimiter = ',', value_parser = parse_entry, help_heading = "HTTP")]
    auth_entry: Vec<(String, EntrySource)>,
    /// Proxies of your own that a request of /v1/auth has passed, the asking one included: so many entries of the
    /// forwarding header are believed.
    #[arg(long, env = "TOLLGATE_AUTH_PROXIES", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=32), help_heading = "HTTP")]
    auth_proxies: u8,
    /// The header that those proxies write.
    #[arg(long, env = "TOLLGATE_AUTH_HEADER", value_name = "NAME", default_value_t = X_FORWARDED_FOR.as_str().to_owned(), help_heading = "HTTP")]
    auth_header: String,
    /// How many bits of an IPv6 address count.
    #[arg(long, env = "TOLLGATE_IPV6_PREFIX", value_name = "BITS", default_value_t = 64, value_parser = clap::value_parser!(u8).range(..=128), help_heading = "HTTP")]
    ipv6_prefix: u8,
    /// The status of a refusal on /v1/auth, where the proxy does not say; nginx takes only 401 and 403 for one. Unless
    /// said 429, and 503 where the store cannot decide and a rule says to refuse then.
    #[arg(long, env = "TOLLGATE_AUTH_DENY_STATUS", value_name = "STATUS", value_parser = refusal, help_heading = "HTTP")]
    auth_deny_status: Option<u16>,

    /// Memory for keys and their states, in MiB.
    #[arg(long, env = "TOLLGATE_MEMORY", value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Keeping")]
    memory: u32,
    /// What new keys get while that memory is full of keys that are being limited.
    #[arg(long, env = "TOLLGATE_MEMORY_FULL", value_enum, default_value_t, help_heading = "Keeping")]
    memory_full: MemoryFull,
    /// What the names of keys begin with, on a server.
    #[arg(long, env = "TOLLGATE_PREFIX", value_name = "PREFIX", default_value = "tollgate", help_heading = "Keeping", value_parser = prefix)]
    prefix: String,
    /// How many processes share the limits: each enforces its share while the store cannot answer.
    #[arg(long, env = "TOLLGATE_NODES", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Keeping")]
    nodes: u32,
    /// How much of that share is free, from 0 to 1, while the store has not answered since the start: a process that was
    /// restarted without its store does not know what it granted before.
    #[arg(long, env = "TOLLGATE_LOCAL_START", value_name = "FRACTION", default_value_t = 0.0, value_parser = ratio, help_heading = "Keeping")]
    local_start: f64,
    /// The longest a decision may take on a Redis, in milliseconds. Envoy waits 20 unless told otherwise.
    #[arg(long, env = "TOLLGATE_STORE_DEADLINE", value_name = "MS", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Keeping")]
    store_deadline: u32,
    /// What becomes of counts when a reload changes a quota.
    #[arg(long, env = "TOLLGATE_ON_CHANGE", value_enum, default_value_t, help_heading = "Keeping")]
    on_change: OnChange,

    /// Limits in Envoy's form charge all descriptors of a request or, if it is refused, none. Unless said, a refused request
    /// is counted, as envoyproxy/ratelimit does; its variable STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT is heeded, too.
    #[arg(
        long,
        env = "TOLLGATE_ENVOY_ALL_OR_NONE",
        value_parser = BoolishValueParser::new(),
        help_heading = "Keeping"
    )]
    envoy_all_or_none: bool,

    /// How the log is written.
    #[arg(long, env = "TOLLGATE_LOG_FORMAT", value_enum, default_value_t, help_heading = "Running")]
    pub(super) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or a filter such as `info,tollgate_server::http=debug`.
    #[arg(long, env = "TOLLGATE_LOG", value_name = "LEVEL", default_value = "info", help_heading = "Running")]
    pub(super) log: String,
    /// Send a span of each traced request there, over OTLP (gRPC), such as http://127.0.0.1:4317. Needs a build with the
    /// feature `otel`; such a one also heeds OTEL_EXPORTER_OTLP_ENDPOINT and its like.
    #[arg(long, env = "TOLLGATE_OTEL", value_name = "ENDPOINT", help_heading = "Running", hide_env_values = true)]
    pub(super) otel: Option<String>,
    /// The share of requests that are traced where the caller has not decided, from 0 to 1. Unless said, OTEL_TRACES_SAMPLER
    /// holds, and without it all are.
    #[arg(long, env = "TOLLGATE_OTEL_RATIO", value_name = "RATIO", help_heading = "Running", value_parser = ratio)]
    pub(super) otel_ratio: Option<f64>,
    /// Seconds between the word to stop and the end of accepting, for balancers to notice /readyz.
    #[arg(long, env = "TOLLGATE_STOP_DELAY", value_name = "SECONDS", default_value_t = 0, help_heading = "Running")]
    stop_delay: u32,
    /// Seconds that requests under way have to finish after that.
    #[arg(long, env = "TOLLGATE_DRAIN", value_name = "SECONDS", default_value_t = 10, help_heading = "Running")]
    drain: u32,
}

/// What new keys get while the memory is full of keys that are being limited.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum MemoryFull {
    /// They share one count, so hardly any is admitted.
    #[default]
    Refuse,
    /// They are admitted and not counted.
    Admit,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What becomes of counts when a quota changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnChange {
    /// Used stays used.
    #[default]
    Keep,
    /// Used keeps its share of the limit.
    Scale,
    /// Everybody starts afresh.
    Fresh,
}

/// A port, or none.
#[derive(Clone, Copy, Debug)]
struct Door(Option<SocketAddr>);

fn door(word: &str) -> Result<Door, String> {
    if word == "off" {
        return Ok(Door(None));
    }
    if let Ok(port) = word.parse::<u16>() {
        return Ok(Door(Some(SocketAddr::from(([127, 0, 0, 1], port)))));
    }
    let address = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = address.as_deref().unwrap_or(word).parse();
    address.map(|address| Door(Some(address))).map_err(|_| {
        "use an address such as 127.0.0.1:8080 or [::]:8080, a port on 127.0.0.1 such as 8080, or off".to_owned()
    })
}

fn refusal(word: &str) -> Result<u16, String> {
    let status = word.parse().ok().filter(|status| deny_status(*status).is_some());
    status.ok_or_else(|| "that is no refusal; use 401, 403, 429 or 503".to_owned())
}

fn ratio(word: &str) -> Result<f64, String> {
    let ratio = word.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "use a number from 0 (none) to 1 (all), such as 0.01".to_owned())
}

impl ServeArgs {
    pub(super) fn config(&self) -> Result<ServerConfig, Failure> {
        let store = match &self.store_file {
            Some(file) => secret_from(file)?,
            None => Secret::new(self.store.clone()),
        };
        let admin_token = secret_of(self.admin_token_file.as_deref(), "TOLLGATE_ADMIN_TOKEN", "a token")?;
        let auth_secret = secret_of(self.auth_secret_file.as_deref(), "TOLLGATE_AUTH_SECRET", "a secret")?;
        let allowed_hosts = AllowedHosts::new(&self.allowed_hosts)
            .map_err(|problem| Failure::Option(format!("--allowed-hosts: {problem}")))?;
        if [self.http.0, self.grpc.0, self.resp.0, self.admin.0].iter().all(Option::is_none) {
            return Err(Failure::Option(
                "every port is off; leave one of --http, --grpc, --resp, --admin on".to_owned(),
            ));
        }
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let header = self.auth_header.parse().map_err(|_| {
            Failure::Option(format!("--auth-header: \"{}\" is no name of a header", self.auth_header.escape_debug()))
        })?;
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Ok(ServerConfig {
            rules: self.rules.clone(),
            store,
            storage: StorageSettings {
                memory_bytes: usize::try_from(self.memory).unwrap_or(usize::MAX).saturating_mul(1 << 20),
                when_full: match self.memory_full {
                    MemoryFull::Refuse => WhenFull::Refuse,
                    MemoryFull::Admit => WhenFull::Admit,
                },
                prefix: self.prefix.clone(),
                nodes: self.nodes,
                local_start: self.local_start,
                deadline: Duration::from_millis(u64::from(self.store_deadline)),
            },
            http: self.http.0,
            grpc: self.grpc.0,
            resp: self.resp.0,
            admin: self.admin.0,
            tls: tls.map(|(cert, key)| TlsFiles { cert, key, client_ca: self.tls_client_ca.clone() }),
            admin_tls: self.admin_tls,
            tokens: self.tokens.clone(),
            admin_token,
            admin_token_file: self.admin_token_file.clone(),
            auth_secret_file: self.auth_secret_file.clone(),
            allowed_hosts,
            bounds: Bounds {
                connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
                drain: seconds(self.drain),
                ..Bounds::default()
            },
            headers: self.headers,
            auth: AuthConfig {
                domain: self.auth_domain.clone(),
                entries: self.auth_entry.clone(),
                address: ClientAddress::behind(usize::from(self.auth_proxies))
                    .header(header)
                    .ipv6_prefix(self.ipv6_prefix),
                deny_status: self.auth_deny_status,
                secret: RequiredSecret::new(auth_secret),
            },
            carry: match self.on_change {
                OnChange::Keep => Carry::Keep,
                OnChange::Scale => Carry::Scale,
                OnChange::Fresh => Carry::Fresh,
            },
            envoy_counts_refused: !(self.envoy_all_or_none || stops_counting()?),
            stop_delay: seconds(self.stop_delay),
            traces: traces::wanted(self),
            ..ServerConfig::default()
        })
    }
}

/// A secret from a file, else from a variable. One that went missing on its way here must not open the door.
fn secret_of(file: Option<&std::path::Path>, variable: &str, what: &str) -> Result<Option<Secret>, Failure> {
    if let Some(file) = file {
        return secret_from(file).map(Some);
    }
    match std::env::var(variable) {
        Ok(secret) if !secret.is_empty() => Ok(Some(Secret::new(secret))),
        Err(VarError::NotPresent) => Ok(None),
        Ok(_) | Err(VarError::NotUnicode(_)) => {
            Err(Failure::Option(format!("{variable} is empty or no text; give it {what}, or unset it")))
        }
    }
}

/// What envoyproxy/ratelimit's own variable says, in the words that service takes for yes and no.
fn stops_counting() -> Result<bool, Failure> {
    const VARIABLE: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    match std::env::var(VARIABLE).as_deref() {
        Ok("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Ok("" | "0" | "f" | "F" | "false" | "FALSE" | "False") | Err(VarError::NotPresent) => Ok(false),
        Ok(_) | Err(VarError::NotUnicode(_)) => {
            Err(Failure::Option(format!("{VARIABLE} is neither true nor false; use one of them, or unset it")))
        }
    }
}

fn secret_from(file: &std::path::Path) -> Result<Secret, Failure> {
    let unreadable = |cause| Failure::Unreadable { file: file.display().to_string(), cause };
    Secret::from_file(file).map_err(unreadable)
}
