//! tollgate's own form: from what was written to policies that can decide.
//!
//! Core checks the numbers; here is what only a file can get wrong: names given twice, patterns that cannot be told
//! apart, a cost that no rule can ever grant.

mod overrides;
mod rule;

use std::collections::HashMap;

use tollgate_core::{
    OnStoreFailure, Policy, PolicyError, Quota, Rule,
    bounds::{MAX_PERMITS, MAX_RULES},
};

use crate::{
    place::{Path, Place},
    problem::{Report, Spot},
    shape::{self, Manners},
    spec::{FailureWord, NativeSpec, PolicySpec, RuleSpec},
    tree::{Kind, Node, shown},
};

pub use self::overrides::Override;

/// A policy and the requests it is for.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// The rules, in the file's domain.
    pub policy: Policy,
    /// Rules that are written down and take no part, which the policy knows nothing of.
    pub disabled: Vec<Rule>,
    /// Descriptor entries a request must have, in the order of the file. None at all: every request fits.
    pub matcher: Vec<(String, MatchValue)>,
    /// What a request costs that does not say.
    pub cost: u64,
    /// Keys that other rules hold for.
    pub overrides: Vec<Override>,
    /// The line the policy begins in.
    pub line: usize,
    /// And the column.
    pub column: usize,
}

/// What a descriptor entry's value must be.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum MatchValue {
    /// Any; it becomes part of the key.
    Any,
    /// Exactly this.
    Literal(String),
}

pub(crate) fn check(root: &Node, report: &mut Report) -> Option<(String, Vec<PolicyEntry>)> {
    let manners = Manners { text_fields: &[], refuse_empty: true };
    let spec: NativeSpec = shape::read(root, &manners, report);
    let top = Path::default();
    let file = Spot { node: root, path: &top };

    let domain = check_domain(spec.domain.as_deref(), file, report);
    let failure = spec.defaults.and_then(|defaults| defaults.on_store_failure).map(failure_answer).unwrap_or_default();
    report.missing(file, "policies", "the file has no policies; add a list of them");
    let specs = spec.policies.unwrap_or_default();
    if root.get("policies").is_some_and(|node| matches!(&node.kind, Kind::List(items) if items.is_empty())) {
        file.blame("policies", report, "policies is an empty list; add one, or remove the file");
    }

    let mut policies = Vec::new();
    let mut seen = Seen::default();
    let nodes = root.get("policies").map_or(&[][..], Node::items);
    let list = top.key("policies");
    for (index, (spec, node)) in specs.iter().zip(nodes).enumerate() {
        // Something else than a mapping has been reported and leaves nothing to look at.
        if !node.is_map() {
            continue;
        }
        let spot = Spot { node, path: &list.index(index) };
        let entry = policy(spec, spot, domain.as_deref(), failure, report);
        seen.check(spec, spot, report);
        policies.extend(entry);
    }
    domain.map(|domain| (domain, policies))
}

/// A domain that can be used, in either form.
pub(crate) fn check_domain(domain: Option<&str>, file: Spot<'_>, report: &mut Report) -> Option<String> {
    let Some(domain) = domain else {
        report.missing(file, "domain", "the file has no domain; add one, such as `domain: api`");
        return None;
    };
    if let Some(problem) = problem_of_name(domain) {
        file.blame("domain", report, problem.replacen("name", "domain", 1));
        return None;
    }
    Some(domain.to_owned())
}

/// Core keeps the rules for names to itself, so it is asked by way of a policy that has no other mistake.
fn problem_of_name(name: &str) -> Option<String> {
    Policy::new(name, [Rule::token_bucket("probe", Quota::per_second(1))]).err().map(told)
}

fn policy(
    spec: &PolicySpec,
    spot: Spot<'_>,
    domain: Option<&str>,
    failure: OnStoreFailure,
    report: &mut Report,
) -> Option<PolicyEntry> {
    report.missing(spot, "name", "the policy has no name; add one, such as `name: per-user`");
    if let Some(problem) = spec.name.as_deref().and_then(problem_of_name) {
        spot.blame("name", report, problem);
    }
    let matcher = matcher(spot, report);
    let none = "the policy has no rules; add one, or leave the policy out to admit everything";
    let (rules, complete) = rules(spec.rules.as_deref(), none, spot, failure, report);
    let cost = cost(spec, spot, &rules, report);
    let (overrides, all_right) = overrides::check(spec, spot, &matcher, failure, report);
    if !(complete && all_right) {
        return None;
    }
    let disabled = rules.iter().filter(|rule| !rule.is_enabled()).cloned().collect();
    match Policy::new(spec.name.as_deref()?, rules).and_then(|policy| policy.in_domain(domain.unwrap_or("unknown"))) {
        Ok(policy) => {
            let Place { line, column } = spot.node.place;
            Some(PolicyEntry { policy, disabled, matcher, cost, overrides, line, column })
        }
        // Name and rules have been looked at one by one, so this is about all of them: two of one name, or too many.
        Err(error) => {
            if report.count() == 0 {
                spot.blame("rules", report, told(error));
            }
            None
        }
    }
}

/// The rules of a policy or an override that are right, and whether those are all of them.
fn rules(
    specs: Option<&[RuleSpec]>,
    none: &str,
    spot: Spot<'_>,
    failure: OnStoreFailure,
    report: &mut Report,
) -> (Vec<Rule>, bool) {
    report.missing(spot, "rules", none);
    let list = spot.path.key("rules");
    let nodes = spot.node.get("rules").map_or(&[][..], Node::items);
    if specs.is_some() && nodes.is_empty() {
        spot.blame("rules", report, none);
    }
    if nodes.len() > MAX_RULES {
        let message = format!("rules has {} items; {MAX_RULES} is the most that are decided in one step", nodes.len());
        spot.blame("rules", report, message);
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for (index, (spec, node)) in specs.unwrap_or_default().iter().zip(nodes).enumerate() {
        if !node.is_map() {
            continue;
        }
        let spot = Spot { node, path: &list.index(index) };
        rules.extend(rule::check(spec, spot, failure, report));
        let Some(name) = spec.name.as_deref() else { continue };
        if let Some(line) = lines.insert(name, node.place.line) {
            let message =
                format!("name is \"{}\", which the rule in line {line} has already; give each its own", shown(name));
            spot.blame("name", report, message);
        }
    }
    let complete = !nodes.is_empty() && rules.len() == nodes.len();
    (rules, complete)
}

fn cost(spec: &PolicySpec, spot: Spot<'_>, rules: &[Rule], report: &mut Report) -> u64 {
    let Some(cost) = spec.cost.map(|cost| cost.0) else { return 1 };
    if cost == 0 {
        spot.blame("cost", report, "cost is 0, so nothing would ever be counted; use 1 or more");
    } else if let Some(rule) = narrowest(rules).filter(|rule| rule.quota().burst_or_limit() < cost) {
        let (name, most) = (shown(rule.name()), rule.quota().burst_or_limit());
        let message =
            format!("cost is {cost}, but rule \"{name}\" never grants more than {most} at once; use {most} or less");
        spot.blame("cost", report, message);
    } else if cost > MAX_PERMITS {
        spot.blame("cost", report, format!("cost is {cost}, beyond what can be counted; use at most {MAX_PERMITS}"));
    }
    cost
}

/// The rule that grants the least at once.
fn narrowest(rules: &[Rule]) -> Option<&Rule> {
    let enforced = rules.iter().filter(|rule| rule.is_enabled() && !rule.is_shadow());
    enforced.min_by_key(|rule| rule.quota().burst_or_limit())
}

fn matcher(policy: Spot<'_>, report: &mut Report) -> Vec<(String, MatchValue)> {
    let mut matcher = Vec::new();
    let Some(pattern) = policy.node.get("match") else { return matcher };
    let spot = Spot { node: pattern, path: &policy.path.key("match") };
    let named = pattern.entries().len();
    if named > MAX_MATCH_ENTRIES {
        let message =
            format!("match names {named} entries; a request has {MAX_MATCH_ENTRIES} at most, so none would fit");
        policy.blame("match", report, message);
        return matcher;
    }
    for entry in pattern.entries() {
        let key = entry.key.as_str();
        let bounds = format!("use 1 to {MAX_MATCH_KEY_BYTES} bytes");
        if key.is_empty() {
            spot.blame_key(key, report, format!("a descriptor key is empty; {bounds}"));
        } else if key.len() > MAX_MATCH_KEY_BYTES {
            spot.blame_key(key, report, format!("a descriptor key is {} bytes long; {bounds}", key.len()));
        }
        let Kind::Scalar { word, .. } = &entry.value.kind else { continue };
        let value = match word.as_str() {
            "*" => MatchValue::Any,
            _ => MatchValue::Literal(word.clone()),
        };
        let name = shown(key);
        if word.is_empty() && !entry.value.is_null() {
            spot.blame(key, report, format!("{name} is \"\", which nothing sends; use \"*\" for any value"));
        } else if word.len() > MAX_MATCH_VALUE_BYTES {
            let bytes = word.len();
            spot.blame(key, report, format!("{name} is {bytes} bytes long; use at most {MAX_MATCH_VALUE_BYTES}"));
        } else if word.len() > 1 && word.ends_with('*') {
            let value = shown(word);
            let message =
                format!("{name} is \"{value}\", but a pattern is a whole value; use \"*\" for any, or a literal");
            spot.blame(key, report, message);
        }
        matcher.push((entry.key.clone(), value));
    }
    matcher
}

/// Names and patterns so far, with the line of their policy.
#[derive(Default)]
struct Seen {
    names: HashMap<String, usize>,
    patterns: HashMap<Vec<(String, String)>, usize>,
}

impl Seen {
    fn check(&mut self, spec: &PolicySpec, spot: Spot<'_>, report: &mut Report) {
        let line = spot.node.place.line;
        if let Some(name) = &spec.name
            && let Some(first) = self.names.insert(name.clone(), line)
        {
            let name = shown(name);
            let message =
                format!("name is \"{name}\", which the policy in line {first} has already; give each its own");
            spot.blame("name", report, message);
        }
        // A pattern that could not be read in full might have been different.
        let written = spot.node.get("match").map_or(0, |pattern| pattern.entries().len());
        let read = spec.pattern.as_ref().map_or(0, |pattern| pattern.len());
        if written != read || (spot.has("match") && spec.pattern.is_none()) {
            return;
        }
        // Sorted by key already, so the order of lines makes no difference.
        let pattern = spec.pattern.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
        if let Some(first) = self.patterns.insert(pattern, line) {
            let message = if read == 0 {
                format!("matches everything, as does the policy in line {first}; give one of them a pattern")
            } else {
                format!(
                    "the same pattern as the policy in line {first}, so neither could win; change one, or join them"
                )
            };
            spot.blame("match", report, message);
        }
    }
}

pub(crate) fn failure_answer(word: FailureWord) -> OnStoreFailure {
    match word {
        FailureWord::Open => OnStoreFailure::Open,
        FailureWord::Closed => OnStoreFailure::Closed,
        FailureWord::Local => OnStoreFailure::Local,
    }
}

/// Core's own words, without the parts that the place says already.
fn told(error: PolicyError) -> String {
    match error {
        PolicyError::Name(problem) => problem.to_string(),
        other => other.to_string(),
    }
}

/// The longest key of a descriptor entry in a pattern.
pub const MAX_MATCH_KEY_BYTES: usize = 128;

/// The longest literal of a descriptor entry in a pattern.
pub const MAX_MATCH_VALUE_BYTES: usize = 256;

/// The most entries in a pattern: a request may not have more, either.
pub const MAX_MATCH_ENTRIES: usize = 16;
