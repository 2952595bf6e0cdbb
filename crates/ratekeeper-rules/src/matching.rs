//! Matching: selection of the rule for a request, and of the key it is counted under.
//!
//! ```
//! use ratekeeper_rules::{Format, matching::{RuleInstaller, Matchers}, read_str};
//! use ratekeeper_rules::{EnvoyDescriptor, EnvoyLimit, FilePolicy};
//!
//! /// Keeps the names of policies; a limiter would install them in its store.
//! struct Names;
//! impl RuleInstaller for Names {
//!     type Policy = String;
//!     type Limit = String;
//!     type Error = std::convert::Infallible;
//!     fn policy(&mut self, policy: &FilePolicy) -> Result<String, Self::Error> {
//!         Ok(policy.policy.name().to_owned())
//!     }
//!     fn limit(&mut self, descriptor: &EnvoyDescriptor, _: &EnvoyLimit) -> Result<String, Self::Error> {
//!         Ok(descriptor.name.clone())
//!     }
//! }
//!
//! let file = read_str("rules/api.yaml", r#"
//! domain: api
//! policies:
//!   - name: free
//!     match: { user: "*" }
//!     rules: [{ name: burst, algorithm: token_bucket, limit: 10, per: 1s }]
//!   - name: pro
//!     match: { user: "*", plan: pro }
//!     rules: [{ name: burst, algorithm: token_bucket, limit: 100, per: 1s }]
//! "#, Format::Yaml)?;
//! let matchers = Matchers::build(&[file], &mut Names)?;
//! let api = matchers.domain("api").ok_or("no such domain")?;
//! let (entry, key) = api.find(&[("user", "42"), ("plan", "pro")]).ok_or("no rule")?;
//! assert_eq!((entry.as_str(), &*key), ("pro", "42"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A matcher maps descriptors to entries, whose type the caller chooses ([`RuleInstaller`]). Matching is pure: no
//! store, no clock, no I/O. A matcher is immutable, so threads can share it without a lock.

mod descriptors;
mod patterns;
mod wildcards;

use std::{borrow::Cow, collections::HashMap, fmt};

use smallvec::SmallVec;

pub use self::{descriptors::DescriptorMatcher, patterns::PatternMatcher};
use crate::{EnvoyDescriptor, EnvoyLimit, FilePolicy, MatchMode, RuleFile, Rules};

/// Creates the entries of matchers from the rules of files, such as handles of installed policies.
pub trait RuleInstaller {
    /// The entry type of policies in the native format.
    type Policy;
    /// The entry type of limits in the Envoy format.
    type Limit;
    /// The error of an entry that could not be created.
    type Error;

    /// Creates the entry of a policy.
    fn policy(&mut self, policy: &FilePolicy) -> Result<Self::Policy, Self::Error>;

    /// Creates the entry of a descriptor's limit.
    fn limit(&mut self, descriptor: &EnvoyDescriptor, limit: &EnvoyLimit) -> Result<Self::Limit, Self::Error>;
}

/// The matchers of a set of rule files, by domain.
#[derive(Debug)]
pub struct Matchers<P, L = P> {
    domains: HashMap<Box<str>, Matcher<P, L>>,
}

/// The matcher of one domain, in the format of its files.
#[derive(Debug)]
pub enum Matcher<P, L = P> {
    /// Native format.
    Patterns(PatternMatcher<P>),
    /// Envoy format.
    Descriptors(DescriptorMatcher<L>),
}

/// The entry of the rule that matches, and the key the request is counted under.
pub type Matched<'m, 'r, T> = (&'m T, Cow<'r, str>);

/// Everything that matches: at most one entry, or with [`MatchMode::All`] any number, in the order of the files.
pub type AllMatched<'m, 'r, T> = SmallVec<[Matched<'m, 'r, T>; 1]>;

/// The error for a key without a descriptor that several rules could match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AmbiguousKey {
    /// `policies` or `descriptors`.
    pub kind: &'static str,
    /// The names of these policies or descriptors.
    pub candidates: Vec<String>,
}

impl<P, L> Matchers<P, L> {
    /// Indexes the rules of these files. Files of the native format that share a domain are one list of policies, in
    /// the order of the files.
    ///
    /// Fails with the first error of the installer.
    pub fn build<I>(files: &[RuleFile], installer: &mut I) -> Result<Self, I::Error>
    where
        I: RuleInstaller<Policy = P, Limit = L>,
    {
        let mut domains = HashMap::new();
        let mut patterns: HashMap<&str, PatternMatcherBuilder<P>> = HashMap::new();
        for file in files {
            match &file.rules {
                Rules::Policies(policies) => {
                    let patterns = patterns.entry(&file.domain).or_default();
                    patterns.mode = file.match_mode;
                    for policy in policies {
                        patterns.push(policy, installer.policy(policy)?);
                    }
                }
                Rules::Descriptors(roots) => {
                    let matcher =
                        DescriptorMatcher::build(roots, &mut |descriptor, limit| installer.limit(descriptor, limit))?;
                    domains.insert(file.domain.as_str().into(), Matcher::Descriptors(matcher));
                }
            }
        }
        domains.extend(
            patterns.into_iter().map(|(domain, patterns)| (domain.into(), Matcher::Patterns(patterns.finish()))),
        );
        Ok(Self { domains })
    }

    /// The matcher of a domain.
    #[inline]
    pub fn domain(&self, domain: &str) -> Option<&Matcher<P, L>> {
        self.domains.get(domain)
    }

    /// All domains, in no particular order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|domain| &**domain)
    }
}

impl<P, L> Default for Matchers<P, L> {
    fn default() -> Self {
        Self { domains: HashMap::new() }
    }
}

impl<P, L> Matcher<P, L> {
    /// Reorders entries that have no defined order, as in JSON objects, so that they lead to a limit, if any order
    /// does. In the native format the order has no meaning.
    pub fn arrange(&self, entries: &mut [(&str, &str)]) {
        if let Self::Descriptors(matcher) = self {
            matcher.arrange(entries);
        }
    }

    /// The name of an entry that is a complete descriptor for some rule, for use in examples.
    pub fn single_entry(&self) -> Option<&str> {
        match self {
            Self::Patterns(matcher) => matcher.single_entry(),
            Self::Descriptors(matcher) => matcher.single_entry(),
        }
    }
}

impl<T> Matcher<T> {
    /// The entry for a descriptor, and the key the request is counted under.
    pub fn find<'m, 'r>(&'m self, entries: &[(&'r str, &'r str)]) -> Option<Matched<'m, 'r, T>> {
        match self {
            Self::Patterns(matcher) => matcher.find(entries),
            Self::Descriptors(matcher) => matcher.find(entries),
        }
    }

    /// All entries for a descriptor that count it.
    pub fn find_all<'m, 'r>(&'m self, entries: &[(&'r str, &'r str)]) -> AllMatched<'m, 'r, T> {
        match self {
            Self::Patterns(matcher) => matcher.find_all(entries),
            Self::Descriptors(matcher) => matcher.find(entries).into_iter().collect(),
        }
    }

    /// All entries for a key without a descriptor that count it.
    pub fn find_all_by_key<'m, 'r>(&'m self, key: &'r str) -> Result<AllMatched<'m, 'r, T>, AmbiguousKey> {
        match self {
            Self::Patterns(matcher) => matcher.find_all_by_key(key),
            Self::Descriptors(matcher) => Ok(matcher.find_by_key(key)?.into_iter().collect()),
        }
    }

    /// The entry for a key without a descriptor, and the key the request is counted under.
    pub fn find_by_key<'m, 'r>(&'m self, key: &'r str) -> Result<Option<Matched<'m, 'r, T>>, AmbiguousKey> {
        match self {
            Self::Patterns(matcher) => matcher.find_by_key(key),
            Self::Descriptors(matcher) => matcher.find_by_key(key),
        }
    }
}

impl fmt::Display for AmbiguousKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, names) = (self.kind, self.candidates.join(", "));
        write!(f, "a key alone could mean the {kind} {names}; give a descriptor that says which")
    }
}

impl std::error::Error for AmbiguousKey {}

/// The policies of one domain, collected file by file.
struct PatternMatcherBuilder<T> {
    mode: MatchMode,
    patterns: Vec<patterns::NamedPattern<T>>,
}

impl<T> PatternMatcherBuilder<T> {
    fn push(&mut self, policy: &FilePolicy, entry: T) {
        let (name, pattern) = (policy.policy.name().to_owned(), policy.matcher.clone());
        self.patterns.push(patterns::NamedPattern { name, pattern, entry });
    }

    fn finish(self) -> PatternMatcher<T> {
        PatternMatcher::new(self.patterns, self.mode)
    }
}

impl<T> Default for PatternMatcherBuilder<T> {
    fn default() -> Self {
        Self { mode: MatchMode::Best, patterns: Vec::new() }
    }
}

/// The entry name that represents a key without a descriptor.
pub const KEY_ENTRY: &str = "key";

#[cfg(test)]
mod tests;
