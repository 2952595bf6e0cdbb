//! Matching in the form of envoyproxy/ratelimit: a walk down the tree, one level for each entry.
//!
//! At each level the entry with the same key and value wins, else the first wildcard that fits, else the key alone. A
//! limit counts only where the request's entries end; there is no way back up to try another branch.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};
use smallvec::SmallVec;
use tollgate_rules::Wildcard;

use super::{key, limited::Limited};
use crate::engine::{Ban, RequestedLimit};

/// The descriptors of a domain.
#[derive(Debug, Default)]
pub(crate) struct EnvoyRules {
    pub(crate) roots: Level,
}

/// One level, by the entry's key.
#[derive(Debug, Default)]
pub(crate) struct Level(pub(crate) HashMap<Box<str>, Branches>);

/// The descriptors of one key.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    pub(crate) literals: HashMap<Box<str>, Node>,
    /// In the order of the file; the first that fits wins.
    pub(crate) wildcards: Vec<(Wildcard, Node)>,
    pub(crate) any: Option<Box<Node>>,
}

/// One descriptor.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) limit: Option<Limit>,
    pub(crate) below: Level,
    /// Whether its value is counted on its own.
    pub(crate) counts_apart: bool,
}

/// What holds where a request's entries end.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) allowance: Allowed,
    pub(crate) name: Option<Box<str>>,
    pub(crate) replaces: Vec<Box<str>>,
    pub(crate) quota_mode: bool,
    /// Sent back with answers within the limit.
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    pub(crate) written: Option<RequestedLimit>,
}

/// What a limit lets through.
#[derive(Debug)]
pub(crate) enum Allowed {
    Everything,
    /// Nothing, unless it only watches.
    Nothing {
        watches: bool,
        ban: Arc<Ban>,
    },
    As(Arc<Limited>),
}

impl EnvoyRules {
    /// The limit for these entries, and the key they are counted under.
    pub(crate) fn find<'a>(&'a self, entries: &[(&'a str, &'a str)]) -> Option<(&'a Limit, Cow<'a, str>)> {
        let mut level = &self.roots;
        let mut values: SmallVec<[&'a str; 8]> = SmallVec::new();
        for (index, (key, value)) in entries.iter().enumerate() {
            let node = level.0.get(*key)?.find(value)?;
            if node.counts_apart {
                values.push(value);
            }
            if index + 1 == entries.len() {
                return Some((node.limit.as_ref()?, key::of_values(&values)));
            }
            level = &node.below;
        }
        None
    }

    /// Puts entries that come without an order, as JSON's do, into one that leads to a limit, if there is one. Each is
    /// still found as on the wire where the order is given.
    pub(crate) fn arrange(&self, entries: &mut [(&str, &str)]) {
        if self.find(entries).is_none() {
            arrange_below(&self.roots, entries);
        }
    }

    /// The limit for a bare key: that of a descriptor named `key`, else of the only one that counts by one value.
    pub(crate) fn find_by_key<'a>(&'a self, key: &'a str) -> Result<Option<(&'a Limit, Cow<'a, str>)>, String> {
        if self.roots.0.contains_key(super::KEY_ENTRY) {
            return Ok(self.find(&[(super::KEY_ENTRY, key)]));
        }
        match self.by_one_value().as_slice() {
            [] => Ok(None),
            [(_, limit)] => Ok(Some((limit, Cow::Borrowed(key)))),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                Err(format!("a key alone could mean the descriptors {names}; give a descriptor that says which"))
            }
        }
    }

    /// An entry that some limit counts by and that is all it asks for.
    pub(crate) fn counted_by_one(&self) -> Option<&str> {
        self.by_one_value().first().map(|(name, _)| *name)
    }

    fn by_one_value(&self) -> Vec<(&str, &Limit)> {
        let roots = self.roots.0.iter();
        let mut found: Vec<(&str, &Limit)> =
            roots.filter_map(|(name, branches)| Some((&**name, branches.any.as_ref()?.limit.as_ref()?))).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }
}

fn arrange_below(level: &Level, entries: &mut [(&str, &str)]) -> bool {
    for next in 0..entries.len() {
        let (key, value) = entries[next];
        let Some(node) = level.0.get(key).and_then(|branches| branches.find(value)) else { continue };
        entries[..=next].rotate_right(1);
        let leads =
            if entries.len() == 1 { node.limit.is_some() } else { arrange_below(&node.below, &mut entries[1..]) };
        if leads {
            return true;
        }
        entries[..=next].rotate_left(1);
    }
    false
}

impl Branches {
    fn find(&self, value: &str) -> Option<&Node> {
        self.literals
            .get(value)
            .or_else(|| self.wildcards.iter().find(|(wildcard, _)| wildcard.fits(value)).map(|(_, node)| node))
            .or(self.any.as_deref())
    }
}
