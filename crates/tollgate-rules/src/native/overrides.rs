//! Overrides: single keys of a policy that other rules hold for, perhaps until a certain moment.
//!
//! A policy with literals in its pattern does almost the same. An override stays within its policy, so it goes where the
//! policy goes, and it can end by itself.

use std::collections::HashMap;

use tollgate_core::{Micros, OnStoreFailure, Rule, bounds::MAX_KEY_BYTES};

use super::{MatchValue, narrowest, rules};
use crate::{
    problem::{Report, Spot},
    spec::{OverrideSpec, PolicySpec},
    tree::{Node, shown},
};

/// Rules of its own for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The values the key is made of, in alphabetical order of the pattern's entries; at least one.
    pub values: Vec<String>,
    /// What holds instead of the policy's rules.
    pub rules: Vec<Rule>,
    /// When those hold again; nothing: never.
    pub until: Option<Micros>,
    /// The line it begins in.
    pub line: usize,
}

/// The overrides that are right, and whether those are all of them.
pub(super) fn check(
    spec: &PolicySpec,
    policy: Spot<'_>,
    matcher: &[(String, MatchValue)],
    failure: OnStoreFailure,
    report: &mut Report,
) -> (Vec<Override>, bool) {
    let before = report.count();
    let list = policy.path.key("overrides");
    let nodes = policy.node.get("overrides").map_or(&[][..], Node::items);
    let mut overrides = Vec::new();
    let mut lines: HashMap<Vec<String>, usize> = HashMap::new();
    for (index, (one, node)) in spec.overrides.iter().flatten().zip(nodes).enumerate() {
        if !node.is_map() {
            continue;
        }
        let spot = Spot { node, path: &list.index(index) };
        let values = values(one, spot, matcher, report);
        let (rules, complete) = rules(one.rules.as_deref(), NO_RULES, spot, failure, report);
        if let (Some(cost), Some(rule)) = (spec.cost, narrowest(&rules))
            && rule.quota().burst_or_limit() < cost.0
        {
            let (name, most, cost) = (shown(rule.name()), rule.quota().burst_or_limit(), cost.0);
            let message = format!("rule \"{name}\" never grants more than {most} at once, and a request costs {cost}");
            spot.blame("rules", report, message);
        }
        let Some(values) = values else { continue };
        if let Some(line) = lines.insert(values.clone(), node.place.line) {
            let message = format!("the override in line {line} is for the same key; keep one of them");
            spot.blame(if one.key.is_some() { "key" } else { "match" }, report, message);
        }
        if complete {
            let until = one.until.map(|until| until.0);
            overrides.push(Override { values, rules, until, line: node.place.line });
        }
    }
    (overrides, report.count() == before)
}

/// Which key is meant.
fn values(
    spec: &OverrideSpec,
    spot: Spot<'_>,
    matcher: &[(String, MatchValue)],
    report: &mut Report,
) -> Option<Vec<String>> {
    let mut counted: Vec<&str> =
        matcher.iter().filter(|(_, value)| *value == MatchValue::Any).map(|(name, _)| name.as_str()).collect();
    counted.sort_unstable();
    if counted.is_empty() && !matcher.is_empty() {
        let message = "the policy counts all its requests together, so no key can have rules of its own; change the \
                       policy's rules";
        spot.blame("rules", report, message);
        return None;
    }
    let by_names = counted.iter().map(|name| format!("{}: …", shown(name))).collect::<Vec<_>>().join(", ");
    match (&spec.key, spot.has("match")) {
        (Some(_), true) => {
            spot.blame("match", report, "key and match are two ways to say who is meant; keep one of them");
            None
        }
        (Some(_), false) if counted.len() > 1 => {
            let message = format!("the policy counts by {}; use match: {{ {by_names} }}", counted.join(" and "));
            spot.blame("key", report, message);
            None
        }
        (Some(key), false) => {
            if key.is_empty() || key.len() > MAX_KEY_BYTES {
                let message = format!("key is {} bytes long; use 1 to {MAX_KEY_BYTES}", key.len());
                spot.blame("key", report, message);
                return None;
            }
            Some(vec![key.clone()])
        }
        (None, true) => {
            // Something else than words has been reported.
            let values = spec.values.as_ref()?;
            let names: Vec<&str> = values.keys().map(String::as_str).collect();
            if counted.is_empty() {
                spot.blame("match", report, "the policy has no pattern; name the key, such as `key: user:42`");
                return None;
            }
            if names != counted {
                let message = format!("needs a value for each \"*\" of the policy and no other: {{ {by_names} }}");
                spot.blame("match", report, message);
                return None;
            }
            if let Some((name, value)) = values.iter().find(|(_, value)| value.0.is_empty() || value.0 == "*") {
                let (name, value) = (shown(name), shown(&value.0));
                spot.blame("match", report, format!("{name} is \"{value}\", but an override is for one key; name it"));
                return None;
            }
            Some(values.values().map(|value| value.0.clone()).collect())
        }
        (None, false) => {
            let example =
                if counted.len() > 1 { format!("match: {{ {by_names} }}") } else { "key: user:42".to_owned() };
            report.missing(spot, "key", format!("the override names no key; add one, such as `{example}`"));
            None
        }
    }
}

const NO_RULES: &str = "the override has no rules; add one, or leave the override out";
