//! From rule files to a rulebook: every policy told to the store, every descriptor put into its place.
//!
//! What has not changed is taken over from the book before, so that a reload of a thousand policies of which one is new
//! tells the store about one.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{Carry, Micros, Policy, Rule, Store, StoreError};
use tollgate_rules::{Allowance, EnvoyDescriptor, EnvoyLimit, EnvoyValue, RuleFile, Rules};

use super::{
    Domain, Rulebook, Switches,
    envoy::{Allowed, Branches, EnvoyRules, Level, Limit, Node},
    limited::{Exception, Limited},
    native::{NativeRules, Written},
};
use crate::{engine::RequestedLimit, telemetry::Telemetry, wiring::Storage};

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

/// Makes rulebooks.
pub(crate) struct Builder<'a> {
    pub(crate) store: &'a Storage,
    pub(crate) telemetry: &'a Telemetry,
    pub(crate) before: &'a Rulebook,
    pub(crate) switches: &'a Switches,
    pub(crate) exempt: &'a [Exempt],
    /// What becomes of existing state where numbers change.
    pub(crate) carry: Carry,
}

impl Builder<'_> {
    pub(crate) fn build(&self, files: &[RuleFile]) -> Result<Rulebook, StoreError> {
        let mut book = Rulebook { switches: self.switches.clone(), ..Rulebook::default() };
        for file in files {
            let domain = match &file.rules {
                Rules::Policies(entries) => {
                    let mut written: Vec<Written> = Vec::new();
                    for entry in entries {
                        let limited = self.policy(&entry.policy, entry.cost, &mut book)?;
                        written.push((entry.matcher.clone(), limited));
                    }
                    Domain::Native(NativeRules::new(written))
                }
                Rules::Descriptors(roots) => Domain::Envoy(EnvoyRules { roots: self.level(roots, &mut book)? }),
            };
            book.domains.insert(file.domain.as_str().into(), domain);
        }
        Ok(book)
    }

    /// A policy with its switches and exceptions.
    fn policy(&self, written: &Policy, cost: u64, book: &mut Rulebook) -> Result<Arc<Limited>, StoreError> {
        let mut exceptions: HashMap<Box<str>, Exception> = HashMap::new();
        let about_it = |exempt: &&Exempt| exempt.domain == written.domain() && exempt.policy == written.name();
        for exempt in self.exempt.iter().filter(about_it) {
            // The numbers were checked when the exception was made.
            let Ok(own) = exception_policy(written, &exempt.rules) else { continue };
            let limited = self.limited(&own, cost, HashMap::new(), book)?;
            exceptions.insert(exempt.key.as_str().into(), Exception { until: exempt.until, limited });
        }
        self.limited(written, cost, exceptions, book)
    }

    fn limited(
        &self,
        written: &Policy,
        cost: u64,
        exceptions: HashMap<Box<str>, Exception>,
        book: &mut Rulebook,
    ) -> Result<Arc<Limited>, StoreError> {
        let policy = self.switches.apply(written);
        let name: (Box<str>, Box<str>) = (policy.domain().into(), policy.name().into());
        let before = self.before.policies.get(&name).filter(|before| before.policy.rules() == policy.rules());
        let limited = match before {
            Some(same) => Limited {
                policy: Arc::clone(&same.policy),
                stored: same.stored.clone(),
                cost,
                meters: same.meters.clone(),
                exceptions,
            },
            None => Limited {
                stored: self.store.install(policy.clone(), self.carry)?,
                meters: self.telemetry.policy_meters(&policy),
                policy: Arc::new(policy),
                cost,
                exceptions,
            },
        };
        let limited = Arc::new(limited);
        book.policies.insert(name, Arc::clone(&limited));
        Ok(limited)
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
                EnvoyValue::Prefix(prefix) => branches.prefixes.push((prefix.as_str().into(), node)),
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
            Allowance::RefuseAll { unit } => {
                let watches = watches || self.switches.everything_watches;
                (Allowed::Nothing { watches }, Some(RequestedLimit { requests_per_unit: 0, unit: *unit }))
            }
            Allowance::Limited { policy, unit, requests_per_unit } => {
                let policy = if watches { watching(policy) } else { policy.clone() };
                let limited = self.policy(&policy, 1, book)?;
                let written = RequestedLimit { requests_per_unit: *requests_per_unit, unit: *unit };
                (Allowed::As(limited), Some(written))
            }
        };
        Ok(Limit {
            allowance,
            name: limit.name.as_deref().map(Into::into),
            replaces: limit.replaces.iter().map(|name| name.as_str().into()).collect(),
            quota_mode: descriptor.quota_mode,
            written,
        })
    }
}

/// The same policy with rules that only watch.
fn watching(policy: &Policy) -> Policy {
    Switches { everything_watches: true, ..Switches::default() }.apply(policy)
}

/// The policy of keys with these numbers. Those with the same numbers share it; its name tells which they are.
pub(crate) fn exception_policy(policy: &Policy, rules: &[Rule]) -> Result<Policy, tollgate_core::PolicyError> {
    let told = format!("{rules:?}");
    let hash = told.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut kept = policy.name().len().min(tollgate_core::bounds::MAX_NAME_BYTES - 17);
    while !policy.name().is_char_boundary(kept) {
        kept -= 1;
    }
    let name = format!("{}~{hash:016x}", &policy.name()[..kept]);
    Policy::new(name, rules.iter().cloned())?.in_domain(policy.domain())
}

/// FNV-1a: short, and the same in every process and version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
