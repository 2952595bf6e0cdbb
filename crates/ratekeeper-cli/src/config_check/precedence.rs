//! Warnings about policies with `deny` or `unlimited` that a more specific policy takes requests from.
//!
//! The most specific pattern applies, whatever its effect. A deny list of users therefore does not concern requests that
//! a policy with more entries matches.

use ratekeeper_core::Effect;
use ratekeeper_rules::{FilePolicy, MatchValue, RuleFile};

use crate::report::shown;

pub(super) fn warn(file: &RuleFile, warnings: &mut Vec<String>) {
    for entry in file.policies().iter().filter(|entry| entry.policy.effect() != Effect::Limit && is_list(entry)) {
        let takes = |other: &&FilePolicy| other.policy.effect() != entry.policy.effect() && outranks(other, entry);
        let Some(other) = file.policies().iter().find(takes) else { continue };
        let (name, other_name, line) = (shown(entry.policy.name()), shown(other.policy.name()), other.line);
        let effect = entry.policy.effect().name().unwrap_or_default();
        warnings.push(format!(
            "{}:{}: warning: policy {name} ({effect}) does not apply to requests that policy {other_name} in line {line} \
             matches: its pattern is more specific; add its entries to the pattern of {name} as well",
            file.file, entry.line
        ));
    }
}

/// Whether the pattern names values. One without is a default for what no other policy matches.
fn is_list(entry: &FilePolicy) -> bool {
    entry.matcher.iter().any(|(_, value)| *value != MatchValue::Any)
}

/// Whether some request matches both patterns and the first one is more specific.
fn outranks(first: &FilePolicy, second: &FilePolicy) -> bool {
    let rank = |entry: &FilePolicy| {
        let literals = entry.matcher.iter().filter(|(_, value)| *value != MatchValue::Any).count();
        (entry.matcher.len(), literals)
    };
    let agree = |(key, value): &(String, MatchValue)| {
        let other = first.matcher.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        other.is_none_or(|other| intersect(value, other))
    };
    rank(first) > rank(second) && second.matcher.iter().all(agree)
}

fn intersect(one: &MatchValue, other: &MatchValue) -> bool {
    match (values(one), values(other)) {
        (Some(one), Some(other)) => one.iter().any(|value| other.contains(value)),
        _ => true,
    }
}

/// The literals; `None` for any value.
fn values(value: &MatchValue) -> Option<&[String]> {
    match value {
        MatchValue::Any => None,
        MatchValue::Literal(literal) => Some(std::slice::from_ref(literal)),
        MatchValue::OneOf(literals) => Some(literals),
    }
}
