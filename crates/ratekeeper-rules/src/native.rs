//! Validation of the native format: from deserialized fields to policies.
//!
//! `ratekeeper-core` validates the numbers of rules. This module adds the checks that concern a whole file: duplicate
//! names, equal patterns, a cost that a rule never grants.

mod block;
mod overrides;
pub(crate) mod pattern;
mod rule;

use std::collections::HashMap;

use ratekeeper_core::{
    Effect, OnStoreFailure, Policy, PolicyError, Quota, Rule,
    bounds::{MAX_PERMITS, MAX_RULES},
};

use crate::{
    MatchMode,
    deserialize::{self, FormatRules},
    location::{Location, Path},
    problem::{Report, Spot},
    spec::{FailureWord, MatchModeWord, NativeSpec, OnlyTrue, PolicySpec, RuleSpec, SpeedWord},
    speed::{self, SpeedFields},
    tree::{Kind, TreeNode, shown},
};

pub use self::{
    overrides::FileOverride,
    pattern::{MAX_MATCH_ENTRIES, MAX_MATCH_KEY_BYTES, MAX_MATCH_VALUE_BYTES, MAX_MATCH_VALUES, MatchValue, Pattern},
};

/// A policy of a rule file, with its pattern.
#[derive(Clone, Debug)]
pub struct FilePolicy {
    /// The policy with its enabled rules, in the file's domain.
    pub policy: Policy,
    /// Rules with `enabled: false`, which are not part of `policy`.
    pub disabled: Vec<Rule>,
    /// Descriptor entries that a request must have, in the order of the file. If empty, every request matches.
    pub matcher: Pattern,
    /// The cost of requests that give none.
    pub cost: u64,
    /// Overrides of single keys.
    pub overrides: Vec<FileOverride>,
    /// The line in which the policy begins, from 1.
    pub line: usize,
    /// The column in which the policy begins, from 1.
    pub column: usize,
}

pub(crate) fn check(root: &TreeNode, report: &mut Report) -> Option<(String, MatchMode, Vec<FilePolicy>)> {
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

    let match_mode = match spec.match_mode {
        Some(MatchModeWord::All) => MatchMode::All,
        Some(MatchModeWord::Best) | None => MatchMode::Best,
    };
    if match_mode == MatchMode::All && specs.len() > MAX_MATCH_ALL_POLICIES {
        file.blame("match", report, too_many_for_all(specs.len()));
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
        let before = report.count();
        let matcher = pattern::check(spot, report);
        let is_sound = report.count() == before && !(spot.has("match") && spec.pattern.is_none());
        seen.check(spec, is_sound.then_some(&matcher), spot, report);
        let entry = policy(spec, matcher, spot, domain.as_deref(), &defaults, report);
        policies.extend(entry);
    }
    domain.map(|domain| (domain, match_mode, policies))
}

/// The problem of a domain with `match: all` and this many policies.
pub(crate) fn too_many_for_all(policies: usize) -> String {
    format!(
        "match is all, and the domain has {policies} policies; {MAX_MATCH_ALL_POLICIES} is the most, because a request may \
         be counted by all of them in one step"
    )
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
    matcher: Pattern,
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
    let effect = effect("policy", spec.deny, spec.unlimited, spot, report);
    let none = "the policy has no rules; add one, or leave the policy out to admit everything";
    let (rules, complete) = match effect {
        Some(Effect::Limit) => rules(spec.rules.as_deref(), none, spot, failure, report),
        Some(_) => (Vec::new(), true),
        None => (Vec::new(), false),
    };
    let cost = cost(spec, spot, &rules, report);
    let (overrides, all_right) = overrides::check(spec, spot, &matcher, failure, report);
    let fields = SpeedFields::new(spec.speed, spec.allotments);
    let speed = speed::check(&fields, &defaults.speed, "policy", spot, report);
    let block = block::check(spec.block.as_ref(), &rules, spot, report);
    if !(complete && all_right) || (spec.block.is_some() && block.is_none()) {
        return None;
    }
    let rules = rules.into_iter().chain(block).collect::<Vec<_>>();
    let disabled = rules.iter().filter(|rule| !rule.is_enabled()).cloned().collect();
    let name = spec.name.as_deref()?;
    let policy = match effect? {
        Effect::Limit => Policy::new(name, rules),
        other => Policy::with_effect(name, other),
    };
    match policy.and_then(|policy| policy.in_domain(domain.unwrap_or("unknown"))) {
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

/// The effect of a policy or an override; `None` if a problem was reported.
fn effect(
    what: &str,
    deny: Option<OnlyTrue>,
    unlimited: Option<OnlyTrue>,
    spot: Spot<'_>,
    report: &mut Report,
) -> Option<Effect> {
    let what = if what == "override" { "an override" } else { "a policy" };
    let (field, effect) = match (deny, unlimited) {
        (None, None) if (spot.has("deny") || spot.has("unlimited")) && !spot.has("rules") => return None,
        (None, None) => return Some(Effect::Limit),
        (Some(_), Some(_)) => {
            let message = format!("{what} that denies every request has no use for unlimited; keep one of them");
            spot.blame("unlimited", report, message);
            return None;
        }
        (Some(_), None) => ("deny", Effect::Deny),
        (None, Some(_)) => ("unlimited", Effect::Unlimited),
    };
    let before = report.count();
    for other in ["rules", "block", "cost", "speed", "allotments", "overrides"] {
        if spot.has(other) {
            let message = format!("{what} with `{field}: true` has no use for {other}; leave out one of them");
            spot.blame_key(other, report, message);
        }
    }
    (report.count() == before).then_some(effect)
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

/// Names and patterns of the policies checked so far, with their lines.
#[derive(Default)]
struct Seen {
    names: HashMap<String, usize>,
    patterns: HashMap<Pattern, usize>,
}

impl Seen {
    /// `matcher` is the policy's pattern; `None` if it has mistakes. It is not compared then, because entries that were
    /// left out could make the difference.
    fn check(&mut self, spec: &PolicySpec, matcher: Option<&Pattern>, spot: Spot<'_>, report: &mut Report) {
        let line = spot.node.location.line;
        if let Some(name) = &spec.name
            && let Some(first) = self.names.insert(name.clone(), line)
        {
            let name = shown(name);
            let message =
                format!("name is \"{name}\", which the policy in line {first} has already; give each its own");
            spot.blame("name", report, message);
        }
        let mut reported = false;
        for pattern in matcher.into_iter().flat_map(|matcher| pattern::single(matcher)) {
            let message = pattern::conflict(&pattern);
            if let Some(first) = self.patterns.insert(pattern, line)
                && !std::mem::replace(&mut reported, true)
            {
                spot.blame("match", report, message(&format!("line {first}")));
            }
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

/// The most policies of a domain with `match: all`.
pub const MAX_MATCH_ALL_POLICIES: usize = 32;
