//! Start-up message: listen addresses and commands to try.

use std::{
    io::{self, Write},
    net::SocketAddr,
};

use ratekeeper_server::{config::ServerConfig, server::Server, telemetry::shown_endpoint, wiring::shown_address};

use super::args::LogFormat;

pub(super) fn print(format: LogFormat, config: &ServerConfig, server: &Server) -> io::Result<()> {
    match format {
        LogFormat::Text => print_text(config, server),
        LogFormat::Json => print_json(config, server),
    }
}

/// One JSON object on one line, in the format of the log.
fn print_json(config: &ServerConfig, server: &Server) -> io::Result<()> {
    let book = server.engine.rulebook();
    let of = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let addresses = server.addresses;
    let greeting = serde_json::json!({
        "timestamp": super::logs::timestamp(),
        "level": "INFO",
        "message": "ratekeeper serves",
        "version": env!("CARGO_PKG_VERSION"),
        "store": shown_address(config.store.expose()),
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

fn print_text(config: &ServerConfig, server: &Server) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let book = server.engine.rulebook();
    let store = shown_address(config.store.expose());
    let rules = match config.rules.as_slice() {
        [] => "the sample rules".to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    let policies = match book.policies().len() {
        1 => "1 policy".to_owned(),
        count => format!("{count} policies"),
    };
    let domains = book.domains().join(", ");
    writeln!(out, "ratekeeper {} · limits in {store} · {rules}: {policies} ({domains})", env!("CARGO_PKG_VERSION"))?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let addresses = server.addresses;
    let mut print_line = |wire: &str, address: Option<SocketAddr>, line: &dyn Fn(SocketAddr) -> String| match address {
        Some(address) => writeln!(out, "  {wire:<6} {}", line(address)),
        None => Ok(()),
    };
    let domain = book.domains().first().copied().unwrap_or("api").to_owned();
    print_line("http", addresses.http, &|address| {
        let subject = book.example(&domain);
        format!("curl -d '{{\"domain\":\"{domain}\",{subject}}}' {scheme}://{address}/v1/check")
    })?;
    print_line("grpc", addresses.grpc, &|address| {
        format!("{address} · Envoy's rate limit service (v3), health, reflection")
    })?;
    print_line("resp", addresses.resp, &|address| {
        let host = if address.ip().is_loopback() { String::new() } else { format!("-h {} ", address.ip()) };
        format!("redis-cli {host}-p {} CL.THROTTLE user:42 15 30 60", address.port())
    })?;
    let admin = if config.admin_tls { "https" } else { "http" };
    print_line("admin", addresses.admin, &|address| {
        format!("{admin}://{address}/ · dashboard; /metrics /healthz /readyz")
    })?;
    if let Some(traces) = &config.traces {
        writeln!(out, "  traces {}", shown_endpoint(&traces.endpoint))?;
    }
    if config.rules.is_empty() {
        writeln!(
            out,
            "  rules  to use other rules: ratekeeper serve --rules FILE|DIR; edits take effect within a second"
        )?;
    }
    out.flush()
}
