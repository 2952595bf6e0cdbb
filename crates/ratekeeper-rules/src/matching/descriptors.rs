//! Matching of the Envoy format: a walk down a tree of descriptors, one level for each entry.
//!
//! At each level a descriptor with the entry's key and value takes precedence, then the first wildcard that matches,
//! then the descriptor of the key without a value. A limit applies only at the request's last entry. The walk never
//! backtracks.
//!
//! Bound: one step for each entry of the request.

use std::{borrow::Cow, collections::HashMap};

use smallvec::SmallVec;

use super::{AmbiguousKey, KEY_ENTRY, Matched, wildcards::Wildcards};
use crate::{EnvoyDescriptor, EnvoyLimit, EnvoyValue, Wildcard, key};

/// The descriptors of one domain in the Envoy format.
#[derive(Debug)]
pub struct DescriptorMatcher<T> {
    roots: DescriptorLevel<T>,
}

/// One level, by the entry's key.
#[derive(Debug)]
struct DescriptorLevel<T>(HashMap<Box<str>, Branches<T>>);

/// The descriptors of one key.
#[derive(Debug)]
struct Branches<T> {
    literals: HashMap<Box<str>, DescriptorNode<T>>,
    /// Of several that match, the first in the file wins.
    wildcards: Wildcards<DescriptorNode<T>>,
    any: Option<Box<DescriptorNode<T>>>,
}

/// One descriptor.
#[derive(Debug)]
struct DescriptorNode<T> {
    limit: Option<T>,
    below: DescriptorLevel<T>,
    /// Whether the entry's value is part of the key.
    counts_by_value: bool,
}

impl<T> DescriptorMatcher<T> {
    pub(super) fn build<E>(
        roots: &[EnvoyDescriptor],
        entry: &mut impl FnMut(&EnvoyDescriptor, &EnvoyLimit) -> Result<T, E>,
    ) -> Result<Self, E> {
        Ok(Self { roots: DescriptorLevel::build(roots, entry)? })
    }

    /// The entry for a descriptor, and the key the request is counted under.
    pub fn find<'m, 'r>(&'m self, entries: &[(&'r str, &'r str)]) -> Option<Matched<'m, 'r, T>> {
        let mut level = &self.roots;
        let mut values: SmallVec<[&'r str; 8]> = SmallVec::new();
        for (index, (key, value)) in entries.iter().enumerate() {
            let node = level.0.get(*key)?.find(value)?;
            if node.counts_by_value {
                values.push(value);
            }
            if index + 1 == entries.len() {
                return Some((node.limit.as_ref()?, key::of_values(&values)));
            }
            level = &node.below;
        }
        None
    }

    /// Reorders entries so that they lead to a limit, if any order does.
    pub(super) fn arrange(&self, entries: &mut [(&str, &str)]) {
        if self.find(entries).is_none() {
            self.roots.arrange(entries);
        }
    }

    /// The entry for a key without a descriptor: of the descriptor named [`KEY_ENTRY`], else of the only one on the
    /// first level that has a limit and no value.
    pub fn find_by_key<'m, 'r>(&'m self, key: &'r str) -> Result<Option<Matched<'m, 'r, T>>, AmbiguousKey> {
        if self.roots.0.contains_key(KEY_ENTRY) {
            return Ok(self.find(&[(KEY_ENTRY, key)]));
        }
        match self.without_value().as_slice() {
            [] => Ok(None),
            [(_, limit)] => Ok(Some((limit, Cow::Borrowed(key)))),
            several => {
                let candidates = several.iter().map(|(name, _)| (*name).to_owned()).collect();
                Err(AmbiguousKey { kind: "descriptors", candidates })
            }
        }
    }

    /// The name of an entry that is a complete descriptor for some limit.
    pub fn single_entry(&self) -> Option<&str> {
        self.without_value().first().map(|(name, _)| *name)
    }

    /// Limits of the first level that match any value, sorted by name.
    fn without_value(&self) -> Vec<(&str, &T)> {
        let roots = self.roots.0.iter();
        let mut found: Vec<(&str, &T)> =
            roots.filter_map(|(name, branches)| Some((&**name, branches.any.as_ref()?.limit.as_ref()?))).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }
}

impl<T> DescriptorLevel<T> {
    fn build<E>(
        descriptors: &[EnvoyDescriptor],
        entry: &mut impl FnMut(&EnvoyDescriptor, &EnvoyLimit) -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut level: HashMap<Box<str>, Branches<T>> = HashMap::new();
        let mut wildcards: HashMap<&str, Vec<(Wildcard, DescriptorNode<T>)>> = HashMap::new();
        for descriptor in descriptors {
            let node = DescriptorNode {
                limit: descriptor.limit.as_ref().map(|limit| entry(descriptor, limit)).transpose()?,
                below: Self::build(&descriptor.descriptors, entry)?,
                counts_by_value: !matches!(descriptor.value, EnvoyValue::Literal(_)) && !descriptor.share_threshold,
            };
            let branches = level.entry(descriptor.key.as_str().into()).or_default();
            match &descriptor.value {
                EnvoyValue::Any => branches.any = Some(Box::new(node)),
                EnvoyValue::Literal(literal) => _ = branches.literals.insert(literal.as_str().into(), node),
                EnvoyValue::Wildcard(wildcard) => {
                    wildcards.entry(&descriptor.key).or_default().push((wildcard.clone(), node));
                }
            }
        }
        for (key, wildcards) in wildcards {
            level.entry(key.into()).or_default().wildcards = Wildcards::new(wildcards);
        }
        Ok(Self(level))
    }

    /// Whether some order of these entries leads to a limit; the entries are then in that order, else unchanged.
    fn arrange(&self, entries: &mut [(&str, &str)]) -> bool {
        for next in 0..entries.len() {
            let (key, value) = entries[next];
            let Some(node) = self.0.get(key).and_then(|branches| branches.find(value)) else { continue };
            entries[..=next].rotate_right(1);
            let leads_to_limit =
                if entries.len() == 1 { node.limit.is_some() } else { node.below.arrange(&mut entries[1..]) };
            if leads_to_limit {
                return true;
            }
            entries[..=next].rotate_left(1);
        }
        false
    }
}

impl<T> Branches<T> {
    fn find(&self, value: &str) -> Option<&DescriptorNode<T>> {
        self.literals.get(value).or_else(|| self.wildcards.find(value)).or(self.any.as_deref())
    }
}

impl<T> Default for Branches<T> {
    fn default() -> Self {
        Self { literals: HashMap::new(), wildcards: Wildcards::default(), any: None }
    }
}
