//! Descriptors of requests, which rule files match.

use smallvec::SmallVec;

/// A request to a [`RuleLimiter`](crate::RuleLimiter): the domain of the rules, and entries (name and value) that describe
/// the request.
///
/// ```
/// use ratekeeper::Descriptor;
///
/// let descriptor = Descriptor::new("api").entry("user", "42").entry("plan", "pro").cost(5);
/// assert_eq!(Descriptor::from(("api", [("user", "42")])), Descriptor::new("api").entry("user", "42"));
/// ```
///
/// Files in the native format do not mind the order of entries. Files in Envoy's format do: each entry is one level of
/// their tree.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a descriptor does nothing until a limiter decides it"]
pub struct Descriptor<'a> {
    pub(crate) domain: &'a str,
    /// Selects the policy and the key.
    pub(crate) selector: EntriesOrKey<'a>,
    /// `None`: the cost that the matching policy has.
    pub(crate) cost: Option<u64>,
}

/// Entries, or a key alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum EntriesOrKey<'a> {
    Entries(SmallVec<[(&'a str, &'a str); 4]>),
    Key(&'a str),
}

impl<'a> Descriptor<'a> {
    /// A descriptor without entries, which only policies without `match` are for.
    pub fn new(domain: &'a str) -> Self {
        Self { domain, selector: EntriesOrKey::Entries(SmallVec::new()), cost: None }
    }

    /// A key without a descriptor: for a domain in which one policy counts by a single value.
    pub fn key(domain: &'a str, key: &'a str) -> Self {
        Self { domain, selector: EntriesOrKey::Key(key), cost: None }
    }

    /// Adds an entry. After [`key`](Self::key), the key becomes an entry named `key`.
    pub fn entry(mut self, name: &'a str, value: &'a str) -> Self {
        let mut entries = match self.selector {
            EntriesOrKey::Entries(entries) => entries,
            EntriesOrKey::Key(key) => SmallVec::from_slice(&[(ratekeeper_rules::matching::KEY_ENTRY, key)]),
        };
        entries.push((name, value));
        self.selector = EntriesOrKey::Entries(entries);
        self
    }

    /// The number of permits; without it, the `cost` of the matching policy. 0 charges nothing.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }
}

/// A domain and entries.
impl<'a, const N: usize> From<(&'a str, [(&'a str, &'a str); N])> for Descriptor<'a> {
    fn from((domain, entries): (&'a str, [(&'a str, &'a str); N])) -> Self {
        Self { domain, selector: EntriesOrKey::Entries(SmallVec::from_slice(&entries)), cost: None }
    }
}

/// A domain and entries.
impl<'a> From<(&'a str, &[(&'a str, &'a str)])> for Descriptor<'a> {
    fn from((domain, entries): (&'a str, &[(&'a str, &'a str)])) -> Self {
        Self { domain, selector: EntriesOrKey::Entries(SmallVec::from_slice(entries)), cost: None }
    }
}
