//! The first lines of a server: where it listens, and what to try next.

use std::{
    io::{self, Write},
    net::SocketAddr,
};

use tollgate_server::{config::ServerConfig, server::Server, telemetry::shown_endpoint, wiring::Storage};

use super::args::LogFormat;
use crate::report::counted;

pub(super) fn print(format: LogFormat, config: &ServerConfig, server: &Server) -> io::Result<()> {
    match format {
        LogFormat::Text => for_people(config, server),
        LogFormat::Json => for_programs(config, server),
    }
}

/// One object on one line, like the log that it stands beside.
fn for_programs(config: &ServerConfig, server: &Server) -> io::Result<()> {
    let book = server.engine.rulebook();
    let of = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let addresses = server.addresses;
    let greeting = serde_json::json!({
        "timestamp": super::logs::timestamp(),
        "level": "INFO",
        "message": "tollgate serves",
        "version": env!("CARGO_PKG_VERSION"),
        "store": Storage::shown(config.store.expose()),
        "rules": config.rules.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "domains": book.domains(),
        "policies": book.policies().len(),
        "tls": config.tls.is_some(),
        "http": of(addresses.http),
        "grpc": of(addresses.grpc),
        "resp": of(addresses.resp),
        "admin": of(addresses.admin),
    });
    let mut out = io::stdout().lock();
    writeln!(out, "{greeting}")?;
    out.flush()
}

fn for_people(config: &ServerConfig, server: &Server) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let book = server.engine.rulebook();
    let store = Storage::shown(config.store.expose());
    let rules = match config.rules.as_slice() {
        [] => "the sample rules".to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    let policies = counted(book.policies().len(), if book.policies().len() == 1 { "policy" } else { "policie" });
    let domains = book.domains().join(", ");
    writeln!(out, "tollgate {} · limits in {store} · {rules}: {policies} ({domains})", env!("CARGO_PKG_VERSION"))?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let addresses = server.addresses;
    let mut tell = |wire: &str, address: Option<SocketAddr>, line: &dyn Fn(SocketAddr) -> String| match address {
        Some(address) => writeln!(out, "  {wire:<6} {}", line(address)),
        None => Ok(()),
    };
    let domain = book.domains().first().copied().unwrap_or("api").to_owned();
    tell("http", addresses.http, &|address| {
        let whom = book.example(&domain);
        format!("curl -d '{{\"domain\":\"{domain}\",{whom}}}' {scheme}://{address}/v1/check")
    })?;
    tell("grpc", addresses.grpc, &|address| {
        format!("{address} · Envoy's rate limit service (v3), health, reflection")
    })?;
    tell("resp", addresses.resp, &|address| {
        let host = if address.ip().is_loopback() { String::new() } else { format!("-h {} ", address.ip()) };
        format!("redis-cli {host}-p {} CL.THROTTLE user:42 15 30 60", address.port())
    })?;
    let admin = if config.admin_tls { "https" } else { "http" };
    tell("admin", addresses.admin, &|address| format!("{admin}://{address}/ · dashboard; /metrics /healthz /readyz"))?;
    if let Some(traces) = &config.traces {
        writeln!(out, "  traces {}", shown_endpoint(&traces.endpoint))?;
    }
    if config.rules.is_empty() {
        writeln!(out, "  rules  your own: tollgate serve --rules FILE|DIR; an edit is in force within a second")?;
    }
    out.flush()
}
