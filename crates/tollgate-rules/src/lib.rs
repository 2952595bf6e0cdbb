//! Reads rule files: text in, checked policies or a list of problems with their places out.
//!
//! ```
//! use tollgate_rules::{Format, read_str};
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
//! # Ok::<(), tollgate_rules::Problems>(())
//! ```
//!
//! # The walk of a file
//!
//! ```text
//! bytes ─files─▶ text ─text/*─▶ located tree ─shape─▶ spec ─native, envoy─▶ RuleFile
//! ```
//!
//! Each step knows one kind of mistake: of the file system, of the language, of the shape (a wrong type, an unknown
//! field), of the meaning (a limit of 0, two rules of one name). The first two end the reading; of the others all are
//! collected.

mod duration;
mod envoy;
mod files;
mod moment;
mod native;
mod offset;
mod place;
mod problem;
mod scalar;
mod schema;
mod shape;
mod spec;
mod suggest;
mod text;
mod together;
mod tree;

pub use duration::parse as parse_duration;
pub use envoy::{Allowance, EnvoyDescriptor, EnvoyLimit, EnvoyUnit, EnvoyValue, Wildcard};
pub use files::{MAX_FILE_BYTES, read_path, read_paths};
pub use moment::tell as tell_moment;
pub use native::{MAX_MATCH_ENTRIES, MAX_MATCH_KEY_BYTES, MAX_MATCH_VALUE_BYTES, MatchValue, Override, PolicyEntry};
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use text::Format;

use place::{Path, Place};
use problem::Report;
use suggest::nearest;
use tree::Node;

/// A rule file without mistakes.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The file, as it was named by the caller.
    pub file: String,
    /// The domain all of it belongs to; not empty.
    pub domain: String,
    /// What holds in the domain.
    pub rules: Rules,
}

/// The two forms a rule file may have.
#[derive(Clone, Debug)]
pub enum Rules {
    /// tollgate's own: policies in the order of the file.
    Policies(Vec<PolicyEntry>),
    /// That of envoyproxy/ratelimit: the first level of the descriptor tree.
    Descriptors(Vec<EnvoyDescriptor>),
}

impl RuleFile {
    /// The policies; none if the file has the form of envoyproxy/ratelimit.
    pub fn policies(&self) -> &[PolicyEntry] {
        match &self.rules {
            Rules::Policies(policies) => policies,
            Rules::Descriptors(_) => &[],
        }
    }

    /// The first level of descriptors; none if the file has tollgate's own form.
    pub fn descriptors(&self) -> &[EnvoyDescriptor] {
        match &self.rules {
            Rules::Policies(_) => &[],
            Rules::Descriptors(roots) => roots,
        }
    }
}

/// Reads a text; `name` stands in the problems where a file's name would.
pub fn read_str(name: &str, text: &str, format: Format) -> Result<RuleFile, Problems> {
    let mut report = Report::new(name);
    let checked = match format.read(text) {
        Ok(Some(root)) => check(&root, &mut report),
        Ok(None) => {
            let message = "the file is empty; it needs a domain, and policies with rules";
            report.add(Place::START, &Path::default(), message);
            None
        }
        Err(trouble) => {
            report.add(trouble.place, &Path::default(), trouble.message);
            None
        }
    };
    match (checked, report.finish()) {
        (Some((domain, rules)), None) => Ok(RuleFile { file: name.to_owned(), domain, rules }),
        (_, Some(problems)) => Err(problems),
        // Whoever gives up says why; this is the sentence for the day somebody forgets.
        (None, None) => Err(Problems::unreadable(name, "could not be understood")),
    }
}

fn check(root: &Node, report: &mut Report) -> Option<(String, Rules)> {
    if !root.is_map() {
        let message = format!("the file is {}; it should be a mapping with domain and policies", root.told());
        report.add(root.place, &Path::default(), message);
        return None;
    }
    let has = |field| root.get(field).is_some();
    if has("policies") && has("descriptors") {
        let place = root.entry("descriptors").map_or(root.place, |entry| entry.key_place);
        let message = "policies and descriptors are two forms of a rule file; keep one of them, or make two files";
        report.add(place, &Path::default().key("descriptors"), message);
        return None;
    }
    // With neither of them, a misspelt name tells which one was meant.
    let meant = |field: &str| nearest(field, ["policies", "descriptors"]) == Some("descriptors");
    let envoy = has("descriptors") || (!has("policies") && root.entries().iter().any(|entry| meant(&entry.key)));
    if envoy {
        envoy::check(root, report).map(|(domain, roots)| (domain, Rules::Descriptors(roots)))
    } else {
        native::check(root, report).map(|(domain, policies)| (domain, Rules::Policies(policies)))
    }
}
