//! Validation of the native format: from deserialized fields to policies.
//!
//! `ratekeeper-core` validates the numbers of rules. This module adds the checks that concern a whole file: duplicate
//! names, equal patterns, a cost that a rule never grants.

mod overrides;
mod rule;

use std::collections::HashMap;

use ratekeeper_core::{
    OnStoreFailure, Policy, PolicyError, Quota, Rule,
    bounds::{MAX_PERMITS, MAX_RULES},
};

use crate::{
    deserialize::{self, FormatRules},
    location::{Location, Path},
    problem::{Report, Spot},
    spec::{FailureWord, NativeSpec, PolicySpec, RuleSpec, SpeedWord},
    speed::{self, SpeedFields},
    tree::{Kind, TreeNode, shown},
};

pub use self::overrides::FileOverride;

/// A policy of a rule file, with its pattern.
#[derive(Clone, Debug)]
pub struct FilePolicy {
    /// The policy with its enabled rules, in the file's domain.
    pub policy: Policy,
    /// Rules with `enabled: false`, which are not part of `policy`.
    pub disabled: Vec<Rule>,
    /// Descriptor entries that a request must have, in the order of the file. If empty, every request matches.
    pub matcher: Vec<(String, MatchValue)>,
    /// The cost of requests that give none.
    pub cost: u64,
    /// Overrides of single keys.
    pub overrides: Vec<FileOverride>,
    /// The line in which the policy begins, from 1.
    pub line: usize,
    /// The column in which the policy begins, from 1.
    pub column: usize,
}

/// The values of a descriptor entry that a pattern accepts.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum MatchValue {
    /// Any value; it becomes part of the key.
    Any,
    /// Only this value.
    Literal(String),
}

pub(crate) fn check(root: &TreeNode, report: &mut Report) -> Option<(String, Vec<FilePolicy>)> {
    let format = FormatRules { text_fields: &[], refuse_empty: true };
    let spec: NativeSpec = deserialize::read(root, &format, report);
    let top = Path::default();
    let file = Spot { node: root, path: &top };

    let domain = check_domain(spec.domain.as_deref(), file, report);
    let defaults = defaults(&spec, file, report);
    report.missing(file, "policies", "the file has no policies; add a list of them");
    let specs = spec.policies.unwrap_or_default();
    if root.get("policies").is_some_and(|node| matches!(&node.kind, Kind::List(items) if items.is_empty())) {
        file.blame("policies", report, "policies is an empty list; add one, or remove the file");
    }

    let mut policies = Vec::new();
    let mut seen = Seen::default();
    let nodes = root.get("policies").map_or(&[][..], TreeNode::items);
    let list = top.key("policies");
    for (index, (spec, node)) in specs.iter().zip(nodes).enumerate() {
        // An item that is not a mapping has been reported by the deserializer.
        if !node.is_map() {
            continue;
        }
        let spot = Spot { node, path: &list.index(index) };
        let entry = policy(spec, spot, domain.as_deref(), &defaults, report);
        seen.check(spec, spot, report);
        policies.extend(entry);
    }
    domain.map(|domain| (domain, policies))
}

/// Defaults of the policies and rules in a file.
#[derive(Default)]
struct Defaults {
    failure: OnStoreFailure,
    speed: SpeedFields,
}

fn defaults(spec: &NativeSpec, file: Spot<'_>, report: &mut Report) -> Defaults {
    let (Some(defaults), Some(node)) = (&spec.defaults, file.node.get("defaults")) else { return Defaults::default() };
    let speed = SpeedFields::new(defaults.speed, defaults.allotments);
    let used = spec.policies.iter().flatten().any(|policy| policy.speed == Some(SpeedWord::Prepaid));
    speed::check_defaults(&speed, used, Spot { node, path: &file.path.key("defaults") }, report);
    Defaults { failure: defaults.on_store_failure.map(failure_answer).unwrap_or_default(), speed }
}

/// Validates the domain of a file, in either format.
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

/// The problem of an invalid name. Core does not expose its check of names, so this builds a policy that is otherwise
/// valid.
fn problem_of_name(name: &str) -> Option<String> {
    Policy::new(name, [Rule::token_bucket("probe", Quota::per_second(1))]).err().map(describe)
}

fn policy(
    spec: &PolicySpec,
    spot: Spot<'_>,
    domain: Option<&str>,
    defaults: &Defaults,
    report: &mut Report,
) -> Option<FilePolicy> {
    let failure = defaults.failure;
    report.missing(spot, "name", "the policy has no name; add one, such as `name: per-user`");
    if let Some(problem) = spec.name.as_deref().and_then(problem_of_name) {
        spot.blame("name", report, problem);
    }
    let matcher = matcher(spot, report);
    let none = "the policy has no rules; add one, or leave the policy out to admit everything";
    let (rules, complete) = rules(spec.rules.as_deref(), none, spot, failure, report);
    let cost = cost(spec, spot, &rules, report);
    let (overrides, all_right) = overrides::check(spec, spot, &matcher, failure, report);
    let fields = SpeedFields::new(spec.speed, spec.allotments);
    let speed = speed::check(&fields, &defaults.speed, "policy", spot, report);
    if !(complete && all_right) {
        return None;
    }
    let disabled = rules.iter().filter(|rule| !rule.is_enabled()).cloned().collect();
    match Policy::new(spec.name.as_deref()?, rules).and_then(|policy| policy.in_domain(domain.unwrap_or("unknown"))) {
        Ok(policy) => {
            let policy = policy.with_speed(speed);
            speed::check_rules(&fields, &policy, spot, report);
            let Location { line, column } = spot.node.location;
            Some(FilePolicy { policy, disabled, matcher, cost, overrides, line, column })
        }
        // Name and rules are valid one by one, so the error concerns the rules together: a duplicate name, or too many.
        Err(error) => {
            if report.count() == 0 {
                spot.blame("rules", report, describe(error));
            }
            None
        }
    }
}

/// The valid rules of a policy or an override, and whether all of its rules are valid.
fn rules(
    specs: Option<&[RuleSpec]>,
    none: &str,
    spot: Spot<'_>,
    failure: OnStoreFailure,
    report: &mut Report,
) -> (Vec<Rule>, bool) {
    report.missing(spot, "rules", none);
    let list = spot.path.key("rules");
    let nodes = spot.node.get("rules").map_or(&[][..], TreeNode::items);
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
        if let Some(line) = lines.insert(name, node.location.line) {
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

/// The enforced rule with the smallest burst.
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

/// Names and patterns of the policies checked so far, with their lines.
#[derive(Default)]
struct Seen {
    names: HashMap<String, usize>,
    patterns: HashMap<Vec<(String, String)>, usize>,
}

impl Seen {
    fn check(&mut self, spec: &PolicySpec, spot: Spot<'_>, report: &mut Report) {
        let line = spot.node.location.line;
        if let Some(name) = &spec.name
            && let Some(first) = self.names.insert(name.clone(), line)
        {
            let name = shown(name);
            let message =
                format!("name is \"{name}\", which the policy in line {first} has already; give each its own");
            spot.blame("name", report, message);
        }
        // A pattern with invalid entries is not compared: entries that were removed could make the difference.
        let written = spot.node.get("match").map_or(0, |pattern| pattern.entries().len());
        let read = spec.pattern.as_ref().map_or(0, |pattern| pattern.len());
        if written != read || (spot.has("match") && spec.pattern.is_none()) {
            return;
        }
        // The map is sorted by key, so the order of entries in the file has no effect.
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

/// The message of an error of core, without the parts that repeat the location.
fn describe(error: PolicyError) -> String {
    match error {
        PolicyError::Name(problem) => problem.to_string(),
        other => other.to_string(),
    }
}

/// The most bytes of a descriptor entry's key in a pattern.
pub const MAX_MATCH_KEY_BYTES: usize = 128;

/// The most bytes of a descriptor entry's literal in a pattern.
pub const MAX_MATCH_VALUE_BYTES: usize = 256;

/// The most entries of a pattern. A descriptor of a request has the same bound.
pub const MAX_MATCH_ENTRIES: usize = 16;
