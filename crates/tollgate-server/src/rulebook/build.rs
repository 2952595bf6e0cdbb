//! From rule files to a rulebook: every policy told to the store, every descriptor put into its place.
//!
//! What has not changed is taken over from the book before, so that a reload of a thousand policies of which one is new
//! tells the store about one.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{Carry, Micros, Policy, PolicyError, Rule, Store, StoreError, bounds::MAX_NAME_BYTES};
use tollgate_rules::{Allowance, EnvoyDescriptor, EnvoyLimit, EnvoyValue, Override, RuleFile, Rules};

use super::{
    Domain, Rulebook, Switches, Target,
    envoy::{Allowed, Branches, EnvoyRules, Level, Limit, Node},
    key,
    limited::{Exception, Limited},
    native::{NativeRules, Written},
};
use crate::{
    engine::{Ban, RequestedLimit},
    telemetry::Telemetry,
    wiring::Storage,
};

/// Numbers of its own for one key, in place of its policy's.
#[derive(Clone, Debug, PartialEq)]
pub struct Exempt {
    /// The policy's domain.
    pub domain: String,
    /// The policy.
    pub policy: String,
    /// The key, as it is counted.
    pub key: String,
    /// What holds instead.
    pub rules: Vec<Rule>,
    /// Until when, by the store's clock; nothing: until it is taken back.
    pub until: Option<Micros>,
}

impl Exempt {
    /// Whether both are for the same key.
    pub(crate) fn is_for_key_of(&self, other: &Self) -> bool {
        self.domain == other.domain && self.policy == other.policy && self.key == other.key
    }

    /// One that stands in a rule file.
    pub(crate) fn in_file(policy: &Policy, written: &Override) -> Self {
        Self {
            domain: policy.domain().to_owned(),
            policy: policy.name().to_owned(),
            key: key::of_owned(&written.values),
            rules: written.rules.clone(),
            until: written.until,
        }
    }
}

/// What was given by hand, by domain and policy, so that a book of many policies looks each of them up once.
pub(crate) struct ExemptByPolicy<'a>(HashMap<&'a str, HashMap<&'a str, Vec<&'a Exempt>>>);

impl<'a> ExemptByPolicy<'a> {
    pub(crate) fn new(all: &'a [Exempt]) -> Self {
        let mut by_domain: HashMap<&str, HashMap<&str, Vec<&Exempt>>> = HashMap::new();
        for one in all {
            by_domain.entry(&one.domain).or_default().entry(&one.policy).or_default().push(one);
        }
        Self(by_domain)
    }

    fn of(&self, policy: &Policy) -> &[&'a Exempt] {
        self.0.get(policy.domain()).and_then(|domain| domain.get(policy.name())).map_or(&[], Vec::as_slice)
    }
}

/// Makes rulebooks.
pub(crate) struct Builder<'a> {
    pub(crate) store: &'a Storage,
    pub(crate) telemetry: &'a Telemetry,
    pub(crate) before: &'a Rulebook,
    pub(crate) switches: &'a Switches,
    pub(crate) exempt: ExemptByPolicy<'a>,
    /// What becomes of existing state where numbers change.
    pub(crate) carry: Carry,
    /// Whether limits in Envoy's form count refused requests.
    pub(crate) count_refused: bool,
}

impl Builder<'_> {
    pub(crate) fn build(&self, files: &[RuleFile]) -> Result<Rulebook, StoreError> {
        let mut book = Rulebook { switches: self.switches.clone(), ..Rulebook::default() };
        // Several files may share a domain; their policies are one list.
        let mut written: HashMap<&str, Vec<Written>> = HashMap::new();
        for file in files {
            match &file.rules {
                Rules::Policies(entries) => {
                    let written = written.entry(&file.domain).or_default();
                    for entry in entries {
                        let limited = self.policy(&entry.policy, entry.cost, &entry.overrides, &mut book)?;
                        written.push((entry.matcher.clone(), limited));
                    }
                }
                Rules::Descriptors(roots) => {
                    let domain = Domain::Envoy(EnvoyRules { roots: self.level(roots, &mut book)? });
                    book.domains.insert(file.domain.as_str().into(), domain);
                }
            }
        }
        for (domain, written) in written {
            book.domains.insert(domain.into(), Domain::Native(NativeRules::new(written)));
        }
        Ok(book)
    }

    /// A policy with its switches and exceptions.
    fn policy(
        &self,
        written: &Policy,
        cost: u64,
        overrides: &[Override],
        book: &mut Rulebook,
    ) -> Result<Arc<Limited>, StoreError> {
        let in_file = overrides.iter().map(|one| (key::of_owned(&one.values), &one.rules, one.until));
        let by_hand = self.exempt.of(written).iter().map(|one| (one.key.clone(), &one.rules, one.until));
        let mut exceptions: HashMap<Box<str>, Exception> = HashMap::new();
        // Whoever acts by hand does so because of the file, and wins for as long as that is to hold.
        for (key, rules, until) in in_file.chain(by_hand) {
            let limited = self.exception(written, rules, cost, book)?;
            let then = exceptions.remove(key.as_str()).map(Box::new);
            exceptions.insert(key.into(), Exception { until, limited, then });
        }
        for rule in written.rules().iter().filter(|rule| rule.is_shadow()) {
            let (domain, policy) = (written.domain().to_owned(), written.name().to_owned());
            book.shadows.insert(Target { domain, policy, rule: Some(rule.name().to_owned()) });
        }
        let policy = self.switches.apply(written);
        let name = full_name(&policy);
        let limited = Arc::new(match self.before.policies.get(&name).filter(|before| before.has_rules_of(&policy)) {
            Some(same) => same.again(cost, exceptions),
            None => self.limited(policy.clone(), policy, cost, exceptions)?,
        });
        book.policies.insert(name, Arc::clone(&limited));
        Ok(limited)
    }

    /// The rules of single keys. They are counted and shown under the policy's name, and kept under one of their own.
    fn exception(
        &self,
        written: &Policy,
        rules: &[Rule],
        cost: u64,
        book: &mut Rulebook,
    ) -> Result<Arc<Limited>, StoreError> {
        // The numbers were checked when the exception was read; neither names nor switches touch them.
        let shown = self.switches.apply(&renamed(written.name(), written, rules).unwrap_or_else(|_| written.clone()));
        let kept = kept_apart(written, rules).unwrap_or_else(|_| written.clone());
        let name = full_name(&kept);
        if let Some(same) = book.overrides.get(&name) {
            return Ok(Arc::clone(same));
        }
        let limited = Arc::new(match self.before.overrides.get(&name).filter(|before| before.has_rules_of(&shown)) {
            Some(same) => same.again(cost, HashMap::new()),
            None => {
                let rules = shown.rules().iter().map(|ready| ready.rule().clone()).collect::<Vec<_>>();
                let kept = renamed(kept.name(), written, &rules).unwrap_or(kept);
                self.limited(shown, kept, cost, HashMap::new())?
            }
        });
        book.overrides.insert(name, Arc::clone(&limited));
        Ok(limited)
    }

    fn limited(
        &self,
        shown: Policy,
        kept: Policy,
        cost: u64,
        exceptions: HashMap<Box<str>, Exception>,
    ) -> Result<Limited, StoreError> {
        let stored = self.store.install(kept, self.carry)?;
        let meters = self.telemetry.policy_meters(&shown);
        Ok(Limited { policy: Arc::new(shown), stored, cost, meters, exceptions })
    }

    fn level(&self, descriptors: &[EnvoyDescriptor], book: &mut Rulebook) -> Result<Level, StoreError> {
        let mut level = Level::default();
        for descriptor in descriptors {
            let node = Node {
                limit: descriptor.limit.as_ref().map(|limit| self.limit(descriptor, limit, book)).transpose()?,
                below: self.level(&descriptor.descriptors, book)?,
                counts_apart: !matches!(descriptor.value, EnvoyValue::Literal(_)) && !descriptor.share_threshold,
            };
            let branches: &mut Branches = level.0.entry(descriptor.key.as_str().into()).or_default();
            match &descriptor.value {
                EnvoyValue::Any => branches.any = Some(Box::new(node)),
                EnvoyValue::Literal(literal) => _ = branches.literals.insert(literal.as_str().into(), node),
                EnvoyValue::Wildcard(wildcard) => branches.wildcards.push((wildcard.clone(), node)),
            }
        }
        Ok(level)
    }

    fn limit(
        &self,
        descriptor: &EnvoyDescriptor,
        limit: &EnvoyLimit,
        book: &mut Rulebook,
    ) -> Result<Limit, StoreError> {
        let watches = descriptor.shadow_mode || descriptor.quota_mode;
        let (allowance, written) = match &limit.allowance {
            Allowance::Unlimited => (Allowed::Everything, None),
            Allowance::RefuseAll { policy, rule, unit } => {
                let watches = watches || self.switches.everything_watches;
                let ban = Arc::new(Ban { policy: policy.clone(), rule: rule.clone() });
                (Allowed::Nothing { watches, ban }, Some(RequestedLimit { requests_per_unit: 0, unit: *unit }))
            }
            Allowance::Limited { policy, unit, requests_per_unit } => {
                let policy = if watches { watching(policy) } else { policy.clone() };
                let policy = if self.count_refused { policy } else { forgiving(&policy) };
                let limited = self.policy(&policy, 1, &[], book)?;
                let written = RequestedLimit { requests_per_unit: *requests_per_unit, unit: *unit };
                (Allowed::As(limited), Some(written))
            }
        };
        Ok(Limit {
            allowance,
            name: limit.name.as_deref().map(Into::into),
            replaces: limit.replaces.iter().map(|name| name.as_str().into()).collect(),
            // One in shadow is never over, so it is no quota either.
            quota_mode: descriptor.quota_mode && !descriptor.shadow_mode,
            metadata: (!descriptor.metadata.is_empty()).then(|| Arc::new(descriptor.metadata.clone())),
            written,
        })
    }
}

/// The same policy with rules that only watch.
fn watching(policy: &Policy) -> Policy {
    Switches { everything_watches: true, ..Switches::default() }.apply(policy)
}

/// The same policy with rules that charge refused requests nothing.
fn forgiving(policy: &Policy) -> Policy {
    let rules: Vec<Rule> = policy.rules().iter().map(|ready| ready.rule().clone().count_refused(false)).collect();
    renamed(policy.name(), policy, &rules).unwrap_or_else(|_| policy.clone())
}

/// The policy that keys with these rules are kept under. Those with the same rules share it; its name tells which.
fn kept_apart(policy: &Policy, rules: &[Rule]) -> Result<Policy, PolicyError> {
    let told = format!("{rules:?}");
    let hash = told.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut kept = policy.name().len().min(MAX_NAME_BYTES - 17);
    while !policy.name().is_char_boundary(kept) {
        kept -= 1;
    }
    renamed(&format!("{}~{hash:016x}", &policy.name()[..kept]), policy, rules)
}

/// Other rules in the same domain.
fn renamed(name: &str, policy: &Policy, rules: &[Rule]) -> Result<Policy, PolicyError> {
    Policy::new(name, rules.iter().cloned())?.in_domain(policy.domain())
}

fn full_name(policy: &Policy) -> (Box<str>, Box<str>) {
    (policy.domain().into(), policy.name().into())
}

/// FNV-1a: short, and the same in every process and version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
