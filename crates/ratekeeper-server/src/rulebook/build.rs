//! Rulebook builder: installs the policies of rule files in the store and indexes their patterns and descriptors.
//!
//! Policies whose rules and speed have not changed are reused from the previous rulebook: a reload installs only new and changed
//! policies.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{Effect, OnQuotaChange, Policy, Rule, Store, StoreError};
use ratekeeper_rules::{
    Allowance, EnvoyDescriptor, EnvoyLimit, FileOverride, FilePolicy, RuleFile,
    matching::{Matchers, RuleInstaller},
    override_policy, with_override,
};

use super::{
    Ban, Rulebook, SwitchTarget, Switches,
    limit_entry::{LimitEntry, LimitKind},
    overrides::OverridesByPolicy,
    policy_entry::{InstalledOverride, PolicyEntry},
};
use crate::{request::RequestedLimit, telemetry::Telemetry, wiring::AnyStore};

/// Inputs of a build.
pub(crate) struct Builder<'a> {
    pub(crate) store: &'a AnyStore,
    pub(crate) telemetry: &'a Telemetry,
    pub(crate) before: &'a Rulebook,
    pub(crate) switches: &'a Switches,
    /// Overrides of the admin port.
    pub(crate) overrides: OverridesByPolicy<'a>,
    /// How stored state is migrated when the rules of a policy change.
    pub(crate) carry: OnQuotaChange,
    /// Whether limits of the Envoy format count refused requests.
    pub(crate) count_refused: bool,
}

/// Installs policies and limits while the matchers are built.
struct Installation<'a> {
    builder: &'a Builder<'a>,
    book: &'a mut Rulebook,
}

impl RuleInstaller for Installation<'_> {
    type Policy = Arc<PolicyEntry>;
    type Limit = LimitEntry;
    type Error = StoreError;

    fn policy(&mut self, written: &FilePolicy) -> Result<Arc<PolicyEntry>, StoreError> {
        self.builder.policy(&written.policy, written.cost, &written.overrides, self.book)
    }

    fn limit(&mut self, descriptor: &EnvoyDescriptor, limit: &EnvoyLimit) -> Result<LimitEntry, StoreError> {
        self.builder.limit(descriptor, limit, self.book)
    }
}

impl Builder<'_> {
    pub(crate) fn build(&self, files: &[RuleFile]) -> Result<Rulebook, StoreError> {
        let mut book = Rulebook { switches: self.switches.clone(), ..Rulebook::default() };
        book.matchers = Matchers::build(files, &mut Installation { builder: self, book: &mut book })?;
        Ok(book)
    }

    /// The entry of a policy, with switches applied and overrides installed.
    fn policy(
        &self,
        written: &Policy,
        cost: u64,
        overrides: &[FileOverride],
        book: &mut Rulebook,
    ) -> Result<Arc<PolicyEntry>, StoreError> {
        let in_file = overrides.iter().map(|one| (one.key(), (&*one.rules, one.effect), one.until));
        let by_admin = self.overrides.of(written).iter();
        let by_admin = by_admin.map(|one| (one.key.clone(), (&*one.rules, one.effect), one.until));
        let mut overrides: HashMap<Box<str>, InstalledOverride> = HashMap::new();
        // The later override takes precedence, so that the admin port can replace one of the file. The earlier one
        // applies again when the later one expires.
        for (key, rules, until) in in_file.chain(by_admin) {
            let entry = self.installed_override(written, rules, cost, book)?;
            let then = overrides.remove(key.as_str()).map(Box::new);
            overrides.insert(key.into(), InstalledOverride { until, entry, then });
        }
        for rule in written.rules().iter().filter(|rule| rule.is_shadow()) {
            let (domain, policy) = (written.domain().to_owned(), written.name().to_owned());
            book.shadows.insert(SwitchTarget { domain, policy, rule: Some(rule.name().to_owned()) });
        }
        let policy = self.switches.apply(written);
        let name = full_name(&policy);
        let mut entry = match self.before.policies.get(&name).filter(|before| before.has_rules_of(&policy)) {
            Some(same) => same.with(cost, overrides),
            None => self.install(policy.clone(), policy, cost, overrides)?,
        };
        entry.shadow = self.switches.is_policy_shadow(written);
        let entry = Arc::new(entry);
        book.policies.insert(name, Arc::clone(&entry));
        Ok(entry)
    }

    /// The entry of an override's rules. Metrics and answers show the policy's name; the store uses the name of
    /// [`override_policy`].
    fn installed_override(
        &self,
        written: &Policy,
        (rules, effect): (&[Rule], Effect),
        cost: u64,
        book: &mut Rulebook,
    ) -> Result<Arc<PolicyEntry>, StoreError> {
        // Infallible: the rules were checked when the override was read, and switches change no number.
        let shown = self.switches.apply(&with_override(written, rules, effect).unwrap_or_else(|_| written.clone()));
        let kept = override_policy(written, rules, effect).unwrap_or_else(|_| written.clone());
        let name = full_name(&kept);
        if let Some(same) = book.overrides.get(&name) {
            return Ok(Arc::clone(same));
        }
        let mut entry = match self.before.overrides.get(&name).filter(|before| before.has_rules_of(&shown)) {
            Some(same) => same.with(cost, HashMap::new()),
            None => {
                let kept = shown.renamed(kept.name()).unwrap_or(kept);
                self.install(shown, kept, cost, HashMap::new())?
            }
        };
        entry.shadow = self.switches.is_policy_shadow(written);
        let entry = Arc::new(entry);
        book.overrides.insert(name, Arc::clone(&entry));
        Ok(entry)
    }

    fn install(
        &self,
        shown: Policy,
        kept: Policy,
        cost: u64,
        overrides: HashMap<Box<str>, InstalledOverride>,
    ) -> Result<PolicyEntry, StoreError> {
        let stored = self.store.install(kept, self.carry)?;
        let meters = self.telemetry.policy_meters(&shown);
        let ban = (shown.effect() == Effect::Deny)
            .then(|| Arc::new(Ban { policy: shown.name().to_owned(), rule: DENY_RULE.to_owned() }));
        Ok(PolicyEntry { policy: Arc::new(shown), stored, cost, meters, overrides, ban, shadow: false })
    }

    /// The entry of a limit of the Envoy format. A limit above 0 is a policy of one rule.
    fn limit(
        &self,
        descriptor: &EnvoyDescriptor,
        limit: &EnvoyLimit,
        book: &mut Rulebook,
    ) -> Result<LimitEntry, StoreError> {
        let shadow = descriptor.shadow_mode || descriptor.quota_mode;
        let (kind, written) = match &limit.allowance {
            Allowance::Unlimited => (LimitKind::Unlimited, None),
            Allowance::RefuseAll { policy, rule, unit } => {
                let shadow = shadow || self.switches.everything_shadow;
                let ban = Arc::new(Ban { policy: policy.clone(), rule: rule.clone() });
                (LimitKind::RefuseAll { shadow, ban }, Some(RequestedLimit { requests_per_unit: 0, unit: *unit }))
            }
            Allowance::Limited { policy, unit, requests_per_unit } => {
                let policy = if shadow { shadowed(policy) } else { policy.clone() };
                let policy = if self.count_refused { policy } else { without_refused(&policy) };
                let entry = self.policy(&policy, 1, &[], book)?;
                let written = RequestedLimit { requests_per_unit: *requests_per_unit, unit: *unit };
                (LimitKind::Policy(entry), Some(written))
            }
        };
        Ok(LimitEntry {
            kind,
            name: limit.name.as_deref().map(Into::into),
            replaces: limit.replaces.iter().map(|name| name.as_str().into()).collect(),
            // A limit in shadow mode never refuses, so it does not take part in quota mode.
            quota_mode: descriptor.quota_mode && !descriptor.shadow_mode,
            metadata: (!descriptor.metadata.is_empty()).then(|| Arc::new(descriptor.metadata.clone())),
            written,
        })
    }
}

/// The same policy with all rules in shadow mode.
fn shadowed(policy: &Policy) -> Policy {
    Switches { everything_shadow: true, ..Switches::default() }.apply(policy)
}

/// The same policy with rules that do not count refused requests.
fn without_refused(policy: &Policy) -> Policy {
    let rules: Vec<Rule> = policy.rules().iter().map(|ready| ready.rule().clone().count_refused(false)).collect();
    policy.with_rules(rules).unwrap_or_else(|_| policy.clone())
}

/// The rule that metrics show for a policy with `deny: true`.
const DENY_RULE: &str = "deny";

fn full_name(policy: &Policy) -> (Box<str>, Box<str>) {
    (policy.domain().into(), policy.name().into())
}
