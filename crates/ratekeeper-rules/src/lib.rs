//! Rule files: parsing and validation of YAML, TOML and JSON into policies, or problems with locations.
//!
//! ```
//! use ratekeeper_rules::{Format, read_str};
//!
//! let file = read_str("rules/api.yaml", r#"
//! domain: api
//! policies:
//!   - name: per-user
//!     match: { user: "*" }
//!     rules:
//!       - { name: burst, algorithm: token_bucket, limit: 100, per: 1s, burst: 200 }
//! "#, Format::Yaml)?;
//! assert_eq!(file.policies()[0].policy.domain(), "api");
//!
//! let problems = read_str("rules/api.yaml", "domain: api\npolices: []\n", Format::Yaml).unwrap_err();
//! assert_eq!(problems.to_string(), "rules/api.yaml:2:1: polices: there is no field `polices`; did you mean `policies`?");
//! # Ok::<(), ratekeeper_rules::Problems>(())
//! ```
//!
//! # Steps
//!
//! ```text
//! bytes ─files─▶ text ─text/*─▶ located tree ─deserialize─▶ spec ─native, envoy─▶ RuleFile
//! ```
//!
//! Each step reports one kind of problem: I/O, syntax, types and field names, meaning (a limit of 0, duplicate rule
//! names). An I/O or syntax error ends the reading of a file; all others are collected.

mod cross_file;
mod deserialize;
mod duration;
mod envoy;
mod files;
pub mod key;
mod location;
pub mod matching;
mod native;
mod offset;
mod override_policy;
mod problem;
mod scalar;
mod schema;
mod spec;
mod speed;
mod suggest;
mod text;
mod timestamp;
mod tree;

pub use duration::parse as parse_duration;
pub use envoy::{Allowance, EnvoyDescriptor, EnvoyLimit, EnvoyUnit, EnvoyValue, Wildcard};
pub use files::{MAX_FILE_BYTES, read_path, read_paths};
pub use native::{
    FileOverride, FilePolicy, MAX_MATCH_ALL_POLICIES, MAX_MATCH_ENTRIES, MAX_MATCH_KEY_BYTES, MAX_MATCH_VALUE_BYTES,
    MAX_MATCH_VALUES, MatchValue, Pattern,
};
pub use override_policy::{override_policy, with_override};
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use text::Format;
pub use timestamp::format as format_timestamp;

use location::{Location, Path};
use problem::Report;
use suggest::nearest;
use tree::TreeNode;

/// A valid rule file.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The file name as given by the caller.
    pub file: String,
    /// The domain of all its rules; not empty.
    pub domain: String,
    /// Which of the policies that match a request count it.
    pub match_mode: MatchMode,
    /// The rules of the domain.
    pub rules: Rules,
}

/// Which of the policies that match a request count it. The same in all files of a domain.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MatchMode {
    /// The most specific one. In the Envoy format there is no other mode.
    #[default]
    Best,
    /// All of them, in one decision.
    All,
}

/// The rules of a file, in one of the two formats.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Native format: policies in the order of the file.
    Policies(Vec<FilePolicy>),
    /// Envoy format (envoyproxy/ratelimit): the first level of the descriptor tree.
    Descriptors(Vec<EnvoyDescriptor>),
}

impl RuleFile {
    /// The policies; empty if the file has the Envoy format.
    pub fn policies(&self) -> &[FilePolicy] {
        match &self.rules {
            Rules::Policies(policies) => policies,
            Rules::Descriptors(_) => &[],
        }
    }

    /// The first level of descriptors; empty if the file has the native format.
    pub fn descriptors(&self) -> &[EnvoyDescriptor] {
        match &self.rules {
            Rules::Policies(_) => &[],
            Rules::Descriptors(roots) => roots,
        }
    }
}

/// Reads a rule file from a string. Problems show `name` as the file name.
pub fn read_str(name: &str, text: &str, format: Format) -> Result<RuleFile, Problems> {
    let mut report = Report::new(name);
    let checked = match format.read(text) {
        Ok(Some(root)) => check(&root, &mut report),
        Ok(None) => {
            let message = "the file is empty; it needs a domain, and policies with rules";
            report.add(Location::START, &Path::default(), message);
            None
        }
        Err(trouble) => {
            report.add(trouble.location, &Path::default(), trouble.message);
            None
        }
    };
    match (checked, report.finish()) {
        (Some((domain, match_mode, rules)), None) => Ok(RuleFile { file: name.to_owned(), domain, match_mode, rules }),
        (_, Some(problems)) => Err(problems),
        // Unreachable as long as every check that returns `None` reports a problem.
        (None, None) => Err(Problems::unreadable(name, "could not be understood")),
    }
}

fn check(root: &TreeNode, report: &mut Report) -> Option<(String, MatchMode, Rules)> {
    if !root.is_map() {
        let message = format!("the file is {}; it should be a mapping with domain and policies", root.describe());
        report.add(root.location, &Path::default(), message);
        return None;
    }
    let has = |field| root.get(field).is_some();
    if has("policies") && has("descriptors") {
        let location = root.entry("descriptors").map_or(root.location, |entry| entry.key_location);
        let message = "policies and descriptors are two forms of a rule file; keep one of them, or make two files";
        report.add(location, &Path::default().key("descriptors"), message);
        return None;
    }
    // If both are absent, a misspelt field name selects the format.
    let meant = |field: &str| nearest(field, ["policies", "descriptors"]) == Some("descriptors");
    let envoy = has("descriptors") || (!has("policies") && root.entries().iter().any(|entry| meant(&entry.key)));
    if envoy {
        envoy::check(root, report).map(|(domain, roots)| (domain, MatchMode::Best, Rules::Descriptors(roots)))
    } else {
        native::check(root, report).map(|(domain, mode, policies)| (domain, mode, Rules::Policies(policies)))
    }
}
