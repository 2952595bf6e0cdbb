//! Matching in tollgate's own form: the most specific policy that fits.
//!
//! A policy fits if the request has every entry its pattern names, with that value or, for `*`, any value. Of those that
//! fit, the one with the most entries wins; of those, the one with the most literals; of those, the first in the file.
//! Patterns that differ in literals only are looked up together, so a thousand exceptions cost no more than one.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, sync::Arc};

use smallvec::SmallVec;
use tollgate_rules::MatchValue;

use super::{key, limited::Limited};

/// The policies of a domain.
#[derive(Debug)]
pub(crate) struct NativeRules {
    /// Most specific first.
    shapes: Vec<Shape>,
    /// The policy a bare key is meant for, or why none is.
    by_key: ByKey,
}

/// Patterns that name the same entries, and the same of them by literals.
#[derive(Debug)]
struct Shape {
    /// Entries by key in alphabetical order; true: a literal.
    entries: Vec<(String, bool)>,
    policies: ByLiterals,
}

/// Policies and their places in the files, by the literals of their patterns.
type ByLiterals = HashMap<Box<str>, (usize, Arc<Limited>)>;

/// Whom a key alone is asked of.
#[derive(Debug)]
enum ByKey {
    Policy(Arc<Limited>),
    Nobody,
    Several(Vec<String>),
}

/// A pattern and its policy, in the order of the file.
pub(crate) type Written = (Vec<(String, MatchValue)>, Arc<Limited>);

impl NativeRules {
    pub(crate) fn new(policies: Vec<Written>) -> Self {
        let by_key = by_key(&policies);
        let mut shapes: HashMap<Vec<(String, bool)>, ByLiterals> = HashMap::new();
        for (position, (mut pattern, limited)) in policies.into_iter().enumerate() {
            pattern.sort();
            let is_literal = |value: &MatchValue| matches!(value, MatchValue::Literal(_));
            let entries: Vec<(String, bool)> =
                pattern.iter().map(|(key, value)| (key.clone(), is_literal(value))).collect();
            let literals: Vec<&str> = pattern.iter().filter_map(|(_, value)| literal(value)).collect();
            let literals = key::of_values(&literals).into_owned().into_boxed_str();
            shapes.entry(entries).or_default().insert(literals, (position, limited));
        }
        let mut shapes: Vec<Shape> =
            shapes.into_iter().map(|(entries, policies)| Shape { entries, policies }).collect();
        // Of equal rank, the one that comes first in the files.
        shapes.sort_by_cached_key(|shape| {
            (Reverse(shape.rank()), shape.policies.values().map(|(position, _)| *position).min())
        });
        Self { shapes, by_key }
    }

    /// The policy for these entries, and the key they are counted under.
    pub(crate) fn find<'a>(&'a self, entries: &[(&'a str, &'a str)]) -> Option<(&'a Limited, Cow<'a, str>)> {
        let mut best: Option<(usize, usize, &Limited, Cow<'a, str>)> = None;
        for (rank, shape) in self.shapes.iter().enumerate() {
            if best.as_ref().is_some_and(|(found, ..)| self.shapes[*found].rank() > shape.rank()) {
                break;
            }
            if let Some((position, limited, key)) = shape.find(entries)
                && best.as_ref().is_none_or(|(_, first, ..)| position < *first)
            {
                best = Some((rank, position, limited, key));
            }
        }
        best.map(|(_, _, limited, key)| (limited, key))
    }

    /// An entry that some policy counts by and that is all it asks for.
    pub(crate) fn counted_by_one(&self) -> Option<&str> {
        self.shapes.iter().find_map(|shape| match shape.entries.as_slice() {
            [(entry, false)] => Some(entry.as_str()),
            _ => None,
        })
    }

    /// The policy for a bare key.
    pub(crate) fn find_by_key<'a>(&'a self, key: &'a str) -> Result<Option<(&'a Limited, Cow<'a, str>)>, String> {
        let entry = [(KEY_ENTRY, key)];
        let mut naming_it = self.shapes.iter().filter(|shape| shape.names_key());
        if let Some((_, limited, counted)) = naming_it.find_map(|shape| shape.find(&entry)) {
            return Ok(Some((limited, counted)));
        }
        match &self.by_key {
            ByKey::Policy(limited) => Ok(Some((limited, Cow::Borrowed(key)))),
            ByKey::Nobody => Ok(None),
            ByKey::Several(names) => Err(format!(
                "a key alone could mean the policies {}; give a descriptor that says which",
                names.join(", ")
            )),
        }
    }
}

impl Shape {
    fn rank(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.iter().filter(|(_, literal)| *literal).count())
    }

    fn names_key(&self) -> bool {
        self.entries.iter().any(|(key, _)| key == KEY_ENTRY)
    }

    fn find<'a>(&'a self, entries: &[(&'a str, &'a str)]) -> Option<(usize, &'a Limited, Cow<'a, str>)> {
        let mut literals: SmallVec<[&str; 8]> = SmallVec::new();
        let mut values: SmallVec<[&'a str; 8]> = SmallVec::new();
        for (key, is_literal) in &self.entries {
            let (_, value) = entries.iter().find(|(named, _)| named == key)?;
            if *is_literal { literals.push(value) } else { values.push(value) }
        }
        let (position, limited) = self.policies.get(&*key::of_values(&literals))?;
        Some((*position, limited, key::of_values(&values)))
    }
}

/// Without an entry named `key` in any pattern: the policy for everything, else the only one that counts by one value.
fn by_key(policies: &[Written]) -> ByKey {
    if let Some((_, limited)) = policies.iter().find(|(pattern, _)| pattern.is_empty()) {
        return ByKey::Policy(Arc::clone(limited));
    }
    let by_one_value = |pattern: &[(String, MatchValue)]| matches!(pattern, [(_, MatchValue::Any)]);
    let fitting: Vec<_> = policies.iter().filter(|(pattern, _)| by_one_value(pattern)).collect();
    match fitting.as_slice() {
        [] => ByKey::Nobody,
        [(_, limited)] => ByKey::Policy(Arc::clone(limited)),
        several => ByKey::Several(several.iter().map(|(_, limited)| limited.policy.name().to_owned()).collect()),
    }
}

fn literal(value: &MatchValue) -> Option<&str> {
    match value {
        MatchValue::Literal(literal) => Some(literal),
        MatchValue::Any => None,
    }
}

/// What a key alone is called where a descriptor is wanted.
pub(crate) const KEY_ENTRY: &str = "key";
