//! The rulebook: immutable snapshot of all rules, overrides and switches, with their handles in the store.
//!
//! ```text
//! rule files ─ratekeeper-rules─▶ RuleFile ─build─▶ Rulebook ─find─▶ policy + key
//!                     switches, overrides ──┘
//! ```
//!
//! A rulebook never changes. A reload, a switch or an override makes a new one; requests in flight finish with the old
//! one. Matching is that of [`ratekeeper_rules::matching`].

mod build;
mod limit_entry;
mod overrides;
mod policy_entry;
mod switches;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ratekeeper_rules::{
    MatchMode,
    matching::{AllMatched, AmbiguousKey, Matcher, Matchers},
};

use self::policy_entry::InstalledOverride;
pub(crate) use self::{
    build::Builder,
    limit_entry::{LimitEntry, LimitKind},
    overrides::OverridesByPolicy,
    policy_entry::PolicyEntry,
};
pub use self::{
    limit_entry::Ban,
    overrides::Override,
    switches::{SwitchTarget, Switches},
};
use crate::{
    request::Descriptor,
    telemetry::{CALLERS, PolicyMeters, RecentCaller, Totals},
};

/// The rules of every domain.
#[derive(Debug, Default)]
pub struct Rulebook {
    matchers: Matchers<Arc<PolicyEntry>, LimitEntry>,
    /// Policies by domain and name. The next rulebook reuses those whose rules and speed have not changed.
    policies: HashMap<(Box<str>, Box<str>), Arc<PolicyEntry>>,
    /// Policies of overrides, by domain and stored name.
    overrides: HashMap<(Box<str>, Box<str>), Arc<PolicyEntry>>,
    switches: Switches,
    /// Rules that their file puts into shadow mode, whatever the switches.
    shadows: HashSet<SwitchTarget>,
}

/// A policy with the counts of its decisions.
#[derive(Debug)]
pub struct PolicyCounts {
    /// The policy.
    pub policy: Arc<ratekeeper_core::Policy>,
    /// Decisions by verdict and by source.
    pub totals: Totals,
    /// Requests that rules in shadow mode would have refused.
    pub shadow_denials: u64,
}

/// Differences between two rulebooks: policies as `domain/name`, in alphabetical order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Policies that only the new rulebook has.
    pub added: Vec<String>,
    /// Policies that only the old rulebook has.
    pub removed: Vec<String>,
    /// Policies whose rules, speed, cost or overrides differ.
    pub changed: Vec<String>,
}

/// The result of matching a subject: its policy or limit, and the key it is counted under.
#[derive(Debug)]
pub(crate) enum Match<'a> {
    /// A policy of the native format.
    Policy(&'a PolicyEntry, Cow<'a, str>),
    /// Policies of a domain with `match: all`; at least one.
    Policies(Vec<(&'a PolicyEntry, Cow<'a, str>)>),
    /// A limit of the Envoy format.
    Limit(&'a LimitEntry, Cow<'a, str>),
    Unmatched,
    UnknownDomain,
    /// The subject names a policy that the domain does not have.
    UnknownPolicy,
}

impl Rulebook {
    /// Matches a subject against the rules of a domain. Fails if a key without a descriptor is ambiguous.
    #[inline]
    pub(crate) fn find<'a>(&'a self, domain: &str, descriptor: Descriptor<'a>) -> Result<Match<'a>, AmbiguousKey> {
        let policy = |(entry, key): (&'a Arc<PolicyEntry>, _)| Match::Policy(entry, key);
        let limit = |(limit, key)| Match::Limit(limit, key);
        let found = match (self.matchers.domain(domain), descriptor) {
            (None, _) => return Ok(Match::UnknownDomain),
            (Some(_), Descriptor::Policy { name, key }) => {
                let entry = self.policies.get(&(domain.into(), name.into()));
                return Ok(entry.map_or(Match::UnknownPolicy, |entry| Match::Policy(entry, Cow::Borrowed(key))));
            }
            (Some(Matcher::Patterns(matcher)), descriptor) if matcher.mode() == MatchMode::All => {
                return Ok(all_of(match descriptor {
                    Descriptor::Key(key) => matcher.find_all_by_key(key)?,
                    Descriptor::Entries(entries) => matcher.find_all(entries),
                    Descriptor::Policy { .. } => AllMatched::new(),
                }));
            }
            (Some(Matcher::Patterns(matcher)), Descriptor::Entries(entries)) => matcher.find(entries).map(policy),
            (Some(Matcher::Patterns(matcher)), Descriptor::Key(key)) => matcher.find_by_key(key)?.map(policy),
            (Some(Matcher::Descriptors(matcher)), Descriptor::Entries(entries)) => matcher.find(entries).map(limit),
            (Some(Matcher::Descriptors(matcher)), Descriptor::Key(key)) => matcher.find_by_key(key)?.map(limit),
        };
        Ok(found.unwrap_or(Match::Unmatched))
    }

    /// Reorders entries that have no defined order so that a limit of the domain matches, if one does. The order
    /// matters only in the Envoy format.
    pub fn arrange(&self, domain: &str, entries: &mut [(&str, &str)]) {
        if let Some(matcher) = self.matchers.domain(domain) {
            matcher.arrange(entries);
        }
    }

    /// Whether a rule file has this domain.
    pub fn knows(&self, domain: &str) -> bool {
        self.matchers.domain(domain).is_some()
    }

    /// The domain, if there is exactly one.
    pub fn only_domain(&self) -> Option<&str> {
        let mut domains = self.matchers.domains();
        domains.next().filter(|_| domains.next().is_none())
    }

    /// All domains, in alphabetical order.
    pub fn domains(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.matchers.domains().collect();
        all.sort_unstable();
        all
    }

    /// A JSON field with a subject of this domain, for example requests: `key`, or a `descriptor` of one entry if a key
    /// alone is ambiguous.
    pub fn example(&self, domain: &str) -> String {
        let key = "\"key\":\"user:42\"".to_owned();
        let entry = self.matchers.domain(domain).and_then(Matcher::single_entry);
        match (self.find(domain, Descriptor::Key("user:42")), entry) {
            (Err(_), Some(entry)) => format!("\"descriptor\":{{{}:\"42\"}}", serde_json::Value::from(entry)),
            _ => key,
        }
    }

    /// The error message for a subject that names a policy the domain does not have.
    pub(crate) fn unknown_policy(&self, domain: &str, descriptor: Descriptor<'_>) -> String {
        let Descriptor::Policy { name, .. } = descriptor else { return String::new() };
        let mut known: Vec<&str> =
            self.policies.keys().filter(|(of, _)| **of == *domain).map(|(_, name)| &**name).collect();
        known.sort_unstable();
        let more = if known.len() > SHOWN_POLICIES { ", …" } else { "" };
        known.truncate(SHOWN_POLICIES);
        format!("no policy of the domain is named \"{}\"; it has {}{more}", name.escape_debug(), known.join(", "))
    }

    /// Whether a domain has a policy of this name.
    pub fn has_policy(&self, domain: &str, name: &str) -> bool {
        self.policies.contains_key(&(domain.into(), name.into()))
    }

    /// The switches that this rulebook was built with.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Whether the rule file puts the target into shadow mode: the rule, or any rule of the policy. `None` if there is
    /// no such policy.
    pub(crate) fn shadow_in_file(&self, target: &SwitchTarget) -> Option<bool> {
        let entry = self.policies.get(&(target.domain.as_str().into(), target.policy.as_str().into()))?;
        Some(match target.rule {
            Some(_) => self.shadows.contains(target),
            None => entry.policy.rules().iter().any(|rule| {
                self.shadows.contains(&SwitchTarget { rule: Some(rule.name().to_owned()), ..target.clone() })
            }),
        })
    }

    /// The differences from an earlier rulebook.
    pub(crate) fn changes_since(&self, before: &Self) -> Changes {
        let shown = |(domain, name): &(Box<str>, Box<str>)| format!("{domain}/{name}");
        let mut changes = Changes::default();
        for (name, entry) in &self.policies {
            match before.policies.get(name) {
                None => changes.added.push(shown(name)),
                Some(was) if !entry.is_same_as(was) => changes.changed.push(shown(name)),
                Some(_) => {}
            }
        }
        changes.removed = before.policies.keys().filter(|name| !self.policies.contains_key(name)).map(shown).collect();
        [&mut changes.added, &mut changes.removed, &mut changes.changed]
            .into_iter()
            .for_each(|list| list.sort_unstable());
        changes
    }

    /// All policies with their counts, ordered by domain and name. Counts include those of a policy's overrides.
    pub fn policy_counts(&self) -> Vec<PolicyCounts> {
        let mut all: Vec<PolicyCounts> = self
            .policies
            .values()
            .map(|entry| {
                let overrides: Vec<_> = entry.overrides.values().flat_map(InstalledOverride::meters).collect();
                PolicyCounts {
                    policy: Arc::clone(&entry.policy),
                    totals: entry.meters.totals(&overrides),
                    shadow_denials: entry.meters.shadow_denials(&overrides),
                }
            })
            .collect();
        all.sort_by(|a, b| (a.policy.domain(), a.policy.name()).cmp(&(b.policy.domain(), b.policy.name())));
        all
    }

    /// The number of policies.
    pub fn policy_count(&self) -> usize {
        self.policies.len()
    }

    /// The latest keys of each policy, by domain and name; keys with overrides are those of their policy.
    pub(crate) fn recent_callers(&self) -> Vec<(String, String, Vec<RecentCaller>)> {
        let of = |entry: &PolicyEntry| {
            let overrides = entry.overrides.values().flat_map(InstalledOverride::meters);
            let mut callers: Vec<RecentCaller> =
                [&entry.meters].into_iter().chain(overrides).flat_map(PolicyMeters::recent_callers).collect();
            callers.sort_by_key(|caller| std::cmp::Reverse(caller.at));
            callers.truncate(CALLERS);
            (entry.policy.domain().to_owned(), entry.policy.name().to_owned(), callers)
        };
        let mut all: Vec<_> = self.policies.values().map(|entry| of(entry)).collect();
        all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        all
    }

    /// All policies, ordered by domain and name.
    pub fn policies(&self) -> Vec<Arc<ratekeeper_core::Policy>> {
        let mut all: Vec<_> = self.policies.values().map(|entry| Arc::clone(&entry.policy)).collect();
        all.sort_by(|a, b| (a.domain(), a.name()).cmp(&(b.domain(), b.name())));
        all
    }
}

fn all_of<'a>(found: AllMatched<'a, 'a, Arc<PolicyEntry>>) -> Match<'a> {
    match found.is_empty() {
        true => Match::Unmatched,
        false => Match::Policies(found.into_iter().map(|(entry, key)| (&**entry, key)).collect()),
    }
}

/// The most names of policies that an error message shows.
const SHOWN_POLICIES: usize = 8;
