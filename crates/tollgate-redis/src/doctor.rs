//! Is this Redis fit to keep limits, and what should be changed?
//!
//! ```text
//! address ─ places ─▶ servers ─ visit ─▶ facts ─▶ settings │ replication │ cluster   what is configured
//!                                 ├────▶ rights │ scripts                            what is allowed
//!                                 └────▶ pace │ clock │ expiry                       what is measured
//! ```
//!
//! Every server is visited on its own, replicas included: one that is fit to follow but not to lead is found out before
//! it leads. Nothing is changed but one throw-away key per primary, which has a TTL and is deleted. What the account
//! may not see is said to be unseen, never guessed.

mod clock;
mod cluster;
mod expiry;
mod facts;
mod pace;
mod places;
mod replication;
mod rights;
mod settings;
mod visit;

use std::fmt;

use self::{
    clock::Reading,
    facts::Facts,
    places::{Places, Role, Server},
    visit::Visit,
};
use crate::address::Address;

/// What was found at an address.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Where, without credentials.
    pub address: String,
    /// Findings about the whole first, then server by server.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at: one word, which stays the same from release to release.
    pub check: &'static str,
    /// The server it is about; nothing if it is about the whole.
    pub node: Option<String>,
    /// What was found, and what it means for limits.
    pub found: String,
    /// What to change, if anything.
    pub change: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing, or not to be seen.
    Note,
    /// Limits hold, but not in every case that can be foreseen.
    Warn,
    /// Limits do not work.
    Fail,
}

/// Nobody could be asked anything.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{address}: {cause}")]
pub struct NotReached {
    /// Where, without credentials.
    pub address: String,
    /// Why, and what to look at.
    pub cause: String,
}

impl Report {
    /// The worst of the findings.
    pub fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// How many findings are of this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

impl Level {
    /// `ok`, `note`, `warn` or `fail`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Examines everything behind an address. `prefix` is what the names of keys begin with; `tollgate` unless the store
/// was told otherwise.
pub async fn examine(address: &Address, prefix: &str) -> Result<Report, NotReached> {
    let shown = address.to_string();
    let found = places::find(address).await;
    let Places { servers, mut findings } =
        found.map_err(|cause| NotReached { address: shown.clone(), cause: cause.to_string() })?;
    let (mut about_servers, mut clocks) = (Vec::new(), Vec::new());
    for server in &servers {
        let told = look_at(address, prefix, server).await;
        about_servers.extend(told.findings);
        clocks.extend(told.clock);
    }
    findings.extend(clock::together(&clocks));
    findings.extend(about_servers);
    Ok(Report { address: shown, findings })
}

/// What one server has to say.
struct Told {
    findings: Vec<Finding>,
    clock: Option<Reading>,
}

async fn look_at(address: &Address, prefix: &str, server: &Server) -> Told {
    let visit = Visit::to(address, &server.place);
    let facts = match Facts::gather(&visit).await {
        Ok(facts) => facts,
        Err(trouble) => return Told { findings: vec![places::not_reached(server, &trouble)], clock: None },
    };
    let mut findings = settings::check(&facts);
    findings.push(places::check_role(server, &facts));
    findings.extend(replication::check(server, &facts));
    findings.extend(cluster::check_timeout(server, &facts));
    if server.role == Role::Primary {
        let rights = rights::check(&visit, address, prefix, server).await;
        let is_lacking = rights.iter().any(|finding| finding.check == "rights" && finding.level == Level::Fail);
        findings.extend(rights);
        // Without the rights a script fails as well, and says less clearly why.
        if !is_lacking {
            findings.extend(pace::check_scripts(&visit, prefix, server).await);
        }
        findings.extend(expiry::check(&visit, prefix).await);
    }
    findings.extend(pace::check_round_trip(&visit).await);
    let (clock, about_it) = clock::read(&visit, &server.place).await;
    findings.extend(about_it);
    findings.extend(facts.unseen());
    for finding in &mut findings {
        finding.node = Some(server.place.to_string());
    }
    Told { findings, clock }
}

/// Making findings
impl Finding {
    fn new(level: Level, check: &'static str, found: impl Into<String>) -> Self {
        Self { level, check, node: None, found: found.into(), change: None }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, found)
    }

    fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Level::Note, check, found)
    }

    fn warn(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Level::Warn, check, found)
    }

    fn fail(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Level::Fail, check, found)
    }

    fn change(mut self, change: impl Into<String>) -> Self {
        self.change = Some(change.into());
        self
    }
}
