//! `ratekeeper doctor`: examines the Redis servers behind an address, and reports what to change.
//!
//! ```text
//! address ─ discovery ─▶ servers ─ probe ─▶ server_info ─▶ settings │ replication │ cluster   configuration
//!                                    ├────▶ permissions                                       rights of the account
//!                                    └────▶ latency │ clock │ expiry                          measurements
//! ```
//!
//! Each server is examined over a separate connection, replicas included, so that a replica unfit to become primary is
//! found before a failover. Nothing is changed but one temporary key per primary, which has a TTL and is deleted. What
//! the account may not read is reported as not visible, never guessed.

mod args;
mod clock;
mod cluster;
mod command;
mod discovery;
mod expiry;
mod latency;
mod permissions;
mod probe;
mod replication;
mod server_info;
mod settings;

use std::fmt;

use ratekeeper_redis::Address;

use self::{
    clock::ClockReading,
    discovery::{Role, Server, Servers},
    probe::Probe,
    server_info::ServerInfo,
};

pub(crate) use self::{args::DoctorArgs, command::run};
use crate::report::Failure;

/// The findings at an address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Report {
    /// The address, without credentials.
    pub(crate) address: String,
    /// Findings about the deployment first, then server by server.
    pub(crate) findings: Vec<Finding>,
}

/// The result of one check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    /// Its severity.
    pub(crate) level: Severity,
    /// The check: one word, stable across releases.
    pub(crate) check: &'static str,
    /// The server; `None` for the whole deployment.
    pub(crate) node: Option<String>,
    /// The value found, and its effect on limits.
    pub(crate) found: String,
    /// The remedy, if any.
    pub(crate) change: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Severity {
    /// No action needed.
    Ok,
    /// Worth knowing, or not visible to this account.
    Note,
    /// Limits hold now, but not under every foreseeable failure.
    Warn,
    /// Limits do not work.
    Fail,
}

impl Report {
    /// The highest severity.
    pub(crate) fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Severity::Ok)
    }

    /// The number of findings of this severity.
    pub(crate) fn count(&self, level: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

impl Severity {
    /// `ok`, `note`, `warn` or `fail`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Examines all servers behind an address; fails if none can be reached. `prefix` is the prefix of key names, `ratekeeper` by default.
pub(crate) async fn examine(address: &Address, prefix: &str) -> Result<Report, Failure> {
    let shown = address.to_string();
    let found = discovery::find(address).await;
    let Servers { servers, mut findings } =
        found.map_err(|cause| Failure::NotReached { address: shown.clone(), cause: cause.to_string() })?;
    let (mut of_servers, mut clocks) = (Vec::new(), Vec::new());
    for server in &servers {
        let examined = examine_server(address, prefix, server).await;
        of_servers.extend(examined.findings);
        clocks.extend(examined.clock);
    }
    findings.extend(clock::compare(&clocks));
    findings.extend(of_servers);
    Ok(Report { address: shown, findings })
}

/// The findings about one server.
struct Examined {
    findings: Vec<Finding>,
    clock: Option<ClockReading>,
}

async fn examine_server(address: &Address, prefix: &str, server: &Server) -> Examined {
    let probe = Probe::to(address, &server.address);
    let info = match ServerInfo::gather(&probe).await {
        Ok(info) => info,
        Err(error) => return Examined { findings: vec![discovery::not_reached(server, &error)], clock: None },
    };
    let mut findings = settings::check(&info);
    findings.push(discovery::check_role(server, &info));
    findings.extend(replication::check(server, &info));
    findings.extend(cluster::check_timeout(server, &info));
    if server.role == Role::Primary {
        let permissions = permissions::check(&probe, address, prefix, server).await;
        let is_denied = permissions.iter().any(|finding| finding.check == "rights" && finding.level == Severity::Fail);
        findings.extend(permissions);
        // Without the permissions the scripts fail too, with a less clear error.
        if !is_denied {
            findings.extend(latency::check_scripts(&probe, prefix, server).await);
        }
        findings.extend(expiry::check(&probe, prefix).await);
    }
    findings.extend(latency::check_round_trip(&probe).await);
    let (clock, finding) = clock::read(&probe, &server.address).await;
    findings.extend(finding);
    findings.extend(info.unseen());
    for finding in &mut findings {
        finding.node = Some(server.address.to_string());
    }
    Examined { findings, clock }
}

impl Finding {
    fn new(level: Severity, check: &'static str, found: impl Into<String>) -> Self {
        Self { level, check, node: None, found: found.into(), change: None }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, found)
    }

    fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, found)
    }

    fn warn(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Warn, check, found)
    }

    fn fail(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Fail, check, found)
    }

    fn change(mut self, change: impl Into<String>) -> Self {
        self.change = Some(change.into());
        self
    }
}
