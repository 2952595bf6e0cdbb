//! `ratekeeper health`: the readiness of the server in this container or on this machine, as an exit code.
//!
//! Reads the variables of `serve`, so that an image needs no other configuration for its health check, and no `curl`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
};

use clap::{Args, builder::BoolishValueParser};
use serde_json::Value;

use crate::{
    argument::{ListenAddress, listen_address},
    report::{CommandResult, Failure, escaped_lines, print},
    web::{Client, Endpoint, TlsArgs},
};

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Listen address of the admin port, as for `serve`; an address of all interfaces is asked on loopback.
    #[arg(long, env = "RATEKEEPER_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = listen_address)]
    admin: ListenAddress,
    /// The admin port has TLS.
    #[arg(long, env = "RATEKEEPER_ADMIN_TLS", value_parser = BoolishValueParser::new())]
    admin_tls: bool,
    /// Address of the admin port as a URL, instead of the two above: with TLS, a host that the certificate names.
    #[arg(long, env = "RATEKEEPER_ADMIN_URL", value_name = "URL", hide_env_values = true)]
    url: Option<Endpoint>,
    /// Ask only whether the process answers, /healthz, instead of whether it should get requests, /readyz.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(crate) fn run(args: &HealthArgs) -> CommandResult {
    match args.check() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            // Container runtimes reserve 2.
            print(&failure);
            Ok(ExitCode::FAILURE)
        }
    }
}

impl HealthArgs {
    fn check(&self) -> Result<(), Failure> {
        let endpoint = self.endpoint()?;
        let client = Client::new(&endpoint, &self.tls, None)?;
        let path = if self.live { "/healthz" } else { "/readyz" };
        let (status, body) = client.get(path)?;
        if status == 200 {
            return Ok(());
        }
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let details = answer["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let details: Vec<&str> = details.iter().filter_map(Value::as_str).collect();
        let detail = if details.is_empty() { "no reason given".to_owned() } else { details.join("; ") };
        Err(Failure::ErrorResponse { server: endpoint.to_string(), status, detail: escaped_lines(&detail) })
    }

    fn endpoint(&self) -> Result<Endpoint, Failure> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let off = Failure::Options(
            "the admin port is off, so nothing answers health checks; set --admin or RATEKEEPER_ADMIN",
        );
        let address = reachable(self.admin.0.ok_or(off)?);
        let scheme = if self.admin_tls { "https" } else { "http" };
        format!("{scheme}://{address}").parse().map_err(Failure::Option)
    }
}

/// Loopback in place of the address of all interfaces.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
