//! Overrides in rule files: rules for single keys of a policy, with an optional expiry.
//!
//! A policy with literals in its pattern has almost the same effect. An override differs in two ways: it is removed
//! together with its policy, and it can expire.

use std::collections::HashMap;

use ratekeeper_core::{Effect, OnStoreFailure, Rule, Timestamp, bounds::MAX_KEY_BYTES};

use super::{MatchValue, effect, narrowest, rules};
use crate::{
    problem::{Report, Spot},
    spec::{OverrideSpec, PolicySpec},
    tree::{TreeNode, shown},
};

/// An override of a rule file: rules for one key that replace those of its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct FileOverride {
    /// The values of the key, in alphabetical order of the pattern's entry names; at least one.
    pub values: Vec<String>,
    /// The rules that replace those of the policy; empty if it denies or exempts the key.
    pub rules: Vec<Rule>,
    /// What it does with requests of the key.
    pub effect: Effect,
    /// Expiry; `None`: never.
    pub until: Option<Timestamp>,
    /// The line in which the override begins, from 1.
    pub line: usize,
}

impl FileOverride {
    /// The key of these values, equal to that of matching requests.
    pub fn key(&self) -> String {
        crate::key::of_owned(&self.values)
    }
}

/// The valid overrides of a policy, and whether no problem was reported.
pub(super) fn check(
    spec: &PolicySpec,
    policy: Spot<'_>,
    matcher: &[(String, MatchValue)],
    failure: OnStoreFailure,
    report: &mut Report,
) -> (Vec<FileOverride>, bool) {
    let before = report.count();
    let list = policy.path.key("overrides");
    let nodes = policy.node.get("overrides").map_or(&[][..], TreeNode::items);
    let mut overrides = Vec::new();
    let mut lines: HashMap<Vec<String>, usize> = HashMap::new();
    for (index, (one, node)) in spec.overrides.iter().flatten().zip(nodes).enumerate() {
        if !node.is_map() {
            continue;
        }
        let spot = Spot { node, path: &list.index(index) };
        let values = values(one, spot, matcher, report);
        let effect = effect("override", one.deny, one.unlimited, spot, report);
        let (rules, complete) = match effect {
            Some(Effect::Limit) => rules(one.rules.as_deref(), NO_RULES, spot, failure, report),
            effect => (Vec::new(), effect.is_some()),
        };
        if let (Some(cost), Some(rule)) = (spec.cost, narrowest(&rules))
            && rule.quota().burst_or_limit() < cost.0
        {
            let (name, most, cost) = (shown(rule.name()), rule.quota().burst_or_limit(), cost.0);
            let message = format!("rule \"{name}\" never grants more than {most} at once, and a request costs {cost}");
            spot.blame("rules", report, message);
        }
        let Some(values) = values else { continue };
        if let Some(line) = lines.insert(values.clone(), node.location.line) {
            let message = format!("the override in line {line} is for the same key; keep one of them");
            spot.blame(if one.key.is_some() { "key" } else { "match" }, report, message);
        }
        if let (true, Some(effect)) = (complete, effect) {
            let until = one.until.map(|until| until.0);
            overrides.push(FileOverride { values, rules, effect, until, line: node.location.line });
        }
    }
    (overrides, report.count() == before)
}

/// The values of an override's key; `None` if a problem was reported.
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
        let message = "the policy counts all its requests together, so no key can have an override; change the \
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
            // A value of another type has been reported by the deserializer.
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
