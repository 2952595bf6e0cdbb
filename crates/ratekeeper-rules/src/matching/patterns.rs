//! Matching of the native format: the most specific pattern applies.
//!
//! A pattern matches if the request has every entry that it names, with the literal of the pattern or, for `*`, with
//! any value. Of the patterns that match, the one with the most entries applies; of those, the one with the most
//! literals; of those, the first in the files.
//!
//! In a domain with [`MatchMode::All`], every pattern that matches applies ([`PatternMatcher::find_all`]).
//!
//! Patterns with the same entry names and the same positions of literals share a *shape*, and one hash lookup finds the
//! pattern within it. Bound: one lookup per shape, independent of the number of policies.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap};

use smallvec::SmallVec;

use super::{AllMatched, AmbiguousKey, KEY_ENTRY, Matched};
use crate::{MatchMode, MatchValue, key, native::pattern};

/// The policies of one domain in the native format.
#[derive(Debug)]
pub struct PatternMatcher<T> {
    /// In the order of the files.
    entries: Vec<T>,
    /// Most specific first.
    shapes: Vec<Shape>,
    for_bare_key: ForBareKey,
    mode: MatchMode,
}

/// A policy's pattern, in the order of the files.
pub(super) struct NamedPattern<T> {
    pub(super) name: String,
    pub(super) pattern: Vec<(String, MatchValue)>,
    pub(super) entry: T,
}

/// Patterns with the same entry names and the same positions of literals.
#[derive(Debug)]
struct Shape {
    /// Entries by key in alphabetical order; true: a literal.
    entries: Vec<(String, bool)>,
    policies: ShapePolicies,
}

/// Positions of a shape's policies in the files.
#[derive(Debug)]
enum ShapePolicies {
    /// A shape without literals has one pattern.
    Only(usize),
    ByLiterals(ByLiterals),
}

/// Positions by the key of a pattern's literals.
type ByLiterals = HashMap<Box<str>, usize>;

/// The policy of a key that comes without a descriptor, unless a pattern has an entry named [`KEY_ENTRY`].
#[derive(Debug)]
enum ForBareKey {
    /// The policy that matches everything, or the only one whose pattern is one `*`. The shape has no literals.
    Shape(usize),
    None,
    /// Names of policies.
    Ambiguous(Vec<String>),
}

impl<T> PatternMatcher<T> {
    pub(super) fn new(policies: Vec<NamedPattern<T>>, mode: MatchMode) -> Self {
        let bare_key = entries_for_bare_key(&policies);
        let mut shapes: HashMap<Vec<(String, bool)>, ByLiterals> = HashMap::new();
        for (position, NamedPattern { pattern, .. }) in policies.iter().enumerate() {
            for pattern in pattern::single(pattern) {
                let entries: Vec<(String, bool)> =
                    pattern.iter().map(|(key, value)| (key.clone(), literal(value).is_some())).collect();
                let literals: Vec<&str> = pattern.iter().filter_map(|(_, value)| literal(value)).collect();
                let literals = key::of_values(&literals).into_owned().into_boxed_str();
                shapes.entry(entries).or_default().insert(literals, position);
            }
        }
        let mut shapes: Vec<Shape> =
            shapes.into_iter().map(|(entries, policies)| Shape::new(entries, policies)).collect();
        shapes.sort_by_cached_key(|shape| (Reverse(shape.rank()), shape.policies.first_position()));
        let for_bare_key = match bare_key {
            Ok(None) => ForBareKey::None,
            Ok(Some(entries)) => {
                shapes.iter().position(|shape| shape.entries == entries).map_or(ForBareKey::None, ForBareKey::Shape)
            }
            Err(names) => ForBareKey::Ambiguous(names),
        };
        let entries = policies.into_iter().map(|policy| policy.entry).collect();
        Self { entries, shapes, for_bare_key, mode }
    }

    /// Which of the policies that match count a request.
    #[inline]
    pub fn mode(&self) -> MatchMode {
        self.mode
    }

    /// All entries that count a descriptor: that of [`find`](Self::find), or with [`MatchMode::All`] every one that
    /// matches, in the order of the files.
    pub fn find_all<'m, 'r>(&'m self, entries: &[(&'r str, &'r str)]) -> AllMatched<'m, 'r, T> {
        if self.mode == MatchMode::Best {
            return self.find(entries).into_iter().collect();
        }
        let mut found: SmallVec<[_; 4]> = self.shapes.iter().filter_map(|shape| shape.find(entries)).collect();
        found.sort_by_key(|(position, _)| *position);
        found.into_iter().filter_map(|(position, key)| Some((self.entries.get(position)?, key))).collect()
    }

    /// All entries that count a key without a descriptor. With [`MatchMode::All`] and a pattern that names
    /// [`KEY_ENTRY`], the key is a descriptor of that entry; else there is at most the one of
    /// [`find_by_key`](Self::find_by_key).
    pub fn find_all_by_key<'m, 'r>(&'m self, key: &'r str) -> Result<AllMatched<'m, 'r, T>, AmbiguousKey> {
        if self.mode == MatchMode::All && self.shapes.iter().any(Shape::names_key) {
            return Ok(self.find_all(&[(KEY_ENTRY, key)]));
        }
        Ok(self.find_by_key(key)?.into_iter().collect())
    }

    /// The entry for a descriptor, and the key the request is counted under.
    pub fn find<'m, 'r>(&'m self, entries: &[(&'r str, &'r str)]) -> Option<Matched<'m, 'r, T>> {
        let (position, key) = self.find_position(entries)?;
        Some((self.entries.get(position)?, key))
    }

    fn find_position<'r>(&self, entries: &[(&str, &'r str)]) -> Option<(usize, Cow<'r, str>)> {
        let mut best: Option<(usize, usize, Cow<'r, str>)> = None;
        for (index, shape) in self.shapes.iter().enumerate() {
            if best.as_ref().is_some_and(|(found, ..)| self.shapes[*found].rank() > shape.rank()) {
                break;
            }
            if let Some((position, key)) = shape.find(entries)
                && best.as_ref().is_none_or(|(_, first, _)| position < *first)
            {
                best = Some((index, position, key));
            }
        }
        best.map(|(_, position, key)| (position, key))
    }

    /// The entry for a key without a descriptor: of a pattern with an entry named [`KEY_ENTRY`], else of the policy
    /// that matches everything, else as for a descriptor with the one entry of the only policy whose pattern is one `*`.
    pub fn find_by_key<'m, 'r>(&'m self, key: &'r str) -> Result<Option<Matched<'m, 'r, T>>, AmbiguousKey> {
        let entry = [(KEY_ENTRY, key)];
        let mut naming_it = self.shapes.iter().filter(|shape| shape.names_key());
        let found = naming_it.find_map(|shape| shape.find(&entry)).or_else(|| match &self.for_bare_key {
            ForBareKey::Shape(index) => match self.shapes[*index].entries.as_slice() {
                [(name, _)] => self.find_position(&[(name, key)]).map(|(position, counted)| {
                    (position, if counted.is_empty() { counted } else { Cow::Borrowed(key) })
                }),
                _ => self.shapes[*index].policies.get(&[]).map(|position| (position, Cow::Borrowed(key))),
            },
            _ => None,
        });
        if let Some((position, counted)) = found {
            return Ok(self.entries.get(position).map(|entry| (entry, counted)));
        }
        match &self.for_bare_key {
            ForBareKey::Shape(_) => Ok(None),
            ForBareKey::None => Ok(None),
            ForBareKey::Ambiguous(names) => Err(AmbiguousKey { kind: "policies", candidates: names.clone() }),
        }
    }

    /// The name of an entry that is a complete descriptor for some policy.
    pub fn single_entry(&self) -> Option<&str> {
        self.shapes.iter().find_map(|shape| match shape.entries.as_slice() {
            [(entry, false)] => Some(entry.as_str()),
            _ => None,
        })
    }
}

impl Shape {
    fn new(entries: Vec<(String, bool)>, policies: ByLiterals) -> Self {
        let has_literals = entries.iter().any(|(_, literal)| *literal);
        let policies = if has_literals {
            ShapePolicies::ByLiterals(policies)
        } else {
            // Without literals all patterns have the same key in the map, so it has one entry.
            match policies.into_values().next() {
                Some(position) => ShapePolicies::Only(position),
                None => ShapePolicies::ByLiterals(HashMap::new()),
            }
        };
        Self { entries, policies }
    }

    fn rank(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.iter().filter(|(_, literal)| *literal).count())
    }

    fn names_key(&self) -> bool {
        self.entries.iter().any(|(key, _)| key == KEY_ENTRY)
    }

    fn find<'r>(&self, entries: &[(&str, &'r str)]) -> Option<(usize, Cow<'r, str>)> {
        let mut literals: SmallVec<[&str; 8]> = SmallVec::new();
        let mut values: SmallVec<[&'r str; 8]> = SmallVec::new();
        for (key, is_literal) in &self.entries {
            let (_, value) = entries.iter().find(|(named, _)| named == key)?;
            if *is_literal { literals.push(value) } else { values.push(value) }
        }
        Some((self.policies.get(&literals)?, key::of_values(&values)))
    }
}

impl ShapePolicies {
    #[inline]
    fn get(&self, literals: &[&str]) -> Option<usize> {
        match self {
            Self::Only(position) => Some(*position),
            Self::ByLiterals(policies) => policies.get(&*key::of_values(literals)).copied(),
        }
    }

    fn first_position(&self) -> Option<usize> {
        match self {
            Self::Only(position) => Some(*position),
            Self::ByLiterals(policies) => policies.values().copied().min(),
        }
    }
}

/// The shape of the policy for a bare key, in the form of [`Shape::entries`]. `Err`: the names of the candidates if
/// there are several.
fn entries_for_bare_key<T>(policies: &[NamedPattern<T>]) -> Result<Option<Vec<(String, bool)>>, Vec<String>> {
    if policies.iter().any(|policy| policy.pattern.is_empty()) {
        return Ok(Some(Vec::new()));
    }
    let is_one_star = |policy: &&NamedPattern<T>| matches!(policy.pattern.as_slice(), [(_, MatchValue::Any)]);
    let candidates: Vec<_> = policies.iter().filter(is_one_star).collect();
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.pattern.iter().map(|(key, _)| (key.clone(), false)).collect())),
        several => Err(several.iter().map(|policy| policy.name.clone()).collect()),
    }
}

fn literal(value: &MatchValue) -> Option<&str> {
    match value {
        MatchValue::Literal(literal) => Some(literal),
        MatchValue::Any | MatchValue::OneOf(_) => None,
    }
}
