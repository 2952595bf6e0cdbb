//! Patterns of policies: the descriptor entries that a request must have.
//!
//! An entry accepts any value, one literal, or any literal of a list. A list is a short form: the policy has one pattern
//! for each combination of the lists' literals. Bound: [`MAX_MATCH_VALUES`] combinations.

use std::collections::HashSet;

use crate::{
    problem::{Report, Spot},
    scalar::Meaning,
    spec::number_in_match,
    tree::{Kind, TreeNode, shown},
};

/// Descriptor entries with the values that they accept.
pub type Pattern = Vec<(String, MatchValue)>;

/// The values of a descriptor entry that a pattern accepts.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum MatchValue {
    /// Any value; it becomes part of the key.
    Any,
    /// Only this value.
    Literal(String),
    /// Any of these values; they share one count.
    OneOf(Vec<String>),
}

/// The patterns of a policy without lists: one for each combination of the lists' literals, with entries in
/// alphabetical order.
pub(crate) fn single(pattern: &[(String, MatchValue)]) -> Vec<Pattern> {
    let mut all: Vec<Pattern> = vec![Vec::new()];
    for (key, value) in pattern {
        let values: Vec<MatchValue> = match value {
            MatchValue::OneOf(literals) => literals.iter().cloned().map(MatchValue::Literal).collect(),
            other => vec![other.clone()],
        };
        all = all
            .iter()
            .flat_map(|so_far| {
                values.iter().map(move |value| {
                    let mut pattern = so_far.clone();
                    pattern.push((key.clone(), value.clone()));
                    pattern
                })
            })
            .collect();
    }
    all.iter_mut().for_each(|pattern| pattern.sort());
    all
}

/// The message about a pattern that another policy has already, given its location.
pub(crate) fn conflict(pattern: &Pattern) -> impl Fn(&str) -> String + use<> {
    let is_empty = pattern.is_empty();
    move |first: &str| {
        if is_empty {
            format!("matches everything, as does the policy in {first}; give one of them a pattern")
        } else {
            format!("the same pattern as the policy in {first}, so neither could win; change one, or join them")
        }
    }
}

/// The valid entries of a policy's pattern.
pub(super) fn check(policy: Spot<'_>, report: &mut Report) -> Pattern {
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
    let mut combinations = 1_usize;
    for entry in pattern.entries() {
        let key = entry.key.as_str();
        let bounds = format!("use 1 to {MAX_MATCH_KEY_BYTES} bytes");
        if key.is_empty() {
            spot.blame_key(key, report, format!("a descriptor key is empty; {bounds}"));
        } else if key.len() > MAX_MATCH_KEY_BYTES {
            spot.blame_key(key, report, format!("a descriptor key is {} bytes long; {bounds}", key.len()));
        }
        let value = match &entry.value.kind {
            Kind::Scalar { word, .. } => {
                if let Some(problem) = problem_of(key, word).filter(|_| !entry.value.is_null()) {
                    spot.blame(key, report, problem);
                }
                if word == "*" { MatchValue::Any } else { MatchValue::Literal(word.clone()) }
            }
            Kind::List(items) => {
                combinations = combinations.saturating_mul(items.len().max(1));
                MatchValue::OneOf(list(key, items, spot, report))
            }
            Kind::Map(_) => continue,
        };
        matcher.push((entry.key.clone(), value));
    }
    if combinations > MAX_MATCH_VALUES {
        let message = format!("the lists have {combinations} combinations; use at most {MAX_MATCH_VALUES}");
        policy.blame("match", report, message);
        matcher.clear();
    }
    matcher
}

/// The valid literals of a list.
fn list(key: &str, items: &[TreeNode], spot: Spot<'_>, report: &mut Report) -> Vec<String> {
    let path = spot.path.key(key);
    if items.is_empty() {
        spot.blame(key, report, format!("{} is an empty list, so no request would match; name a value", shown(key)));
    }
    let mut literals = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{}[{index}]", shown(key));
        let problem = match &item.kind {
            Kind::Scalar { word, meaning: Meaning::Text } if word == "*" => {
                Some(format!("{name} is \"*\", but a list has literals; use {}: \"*\" for any value", shown(key)))
            }
            Kind::Scalar { word, meaning: Meaning::Text } => problem_of(&name, word).or_else(|| {
                let is_new = seen.insert(word.as_str());
                (!is_new).then(|| format!("{name} is \"{}\", which the list has already; leave it out", shown(word)))
            }),
            Kind::Scalar { word, meaning: Meaning::Whole(_) } => {
                Some(format!("{name} is {}, {}", shown(word), number_in_match(word)))
            }
            _ => Some(format!("{name} is {}; use a literal in quotes", item.describe())),
        };
        match (problem, &item.kind) {
            (Some(problem), _) => report.add(item.location, &path.index(index), problem),
            (None, Kind::Scalar { word, .. }) => literals.push(word.clone()),
            (None, _) => {}
        }
    }
    literals
}

/// The problem of a literal that no request could have.
fn problem_of(key: &str, word: &str) -> Option<String> {
    let name = shown(key);
    if word.is_empty() {
        Some(format!("{name} is \"\", which nothing sends; use \"*\" for any value"))
    } else if word.len() > MAX_MATCH_VALUE_BYTES {
        Some(format!("{name} is {} bytes long; use at most {MAX_MATCH_VALUE_BYTES}", word.len()))
    } else if word.len() > 1 && word.ends_with('*') {
        let value = shown(word);
        Some(format!("{name} is \"{value}\", but a pattern is a whole value; use \"*\" for any, or a literal"))
    } else {
        None
    }
}

/// The most bytes of a descriptor entry's key in a pattern.
pub const MAX_MATCH_KEY_BYTES: usize = 128;

/// The most bytes of a descriptor entry's literal in a pattern.
pub const MAX_MATCH_VALUE_BYTES: usize = 256;

/// The most entries of a pattern. A descriptor of a request has the same bound.
pub const MAX_MATCH_ENTRIES: usize = 16;

/// The most literals of the lists in a pattern: with several lists, the most combinations of their literals.
pub const MAX_MATCH_VALUES: usize = 100_000;
