//! Changing the rules while requests are being answered: reloads, switches, exceptions.
//!
//! Everything is checked first, then told to the store, then published with one pointer. Whoever cannot be read keeps
//! the rules that were there.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use tollgate_core::{Carry, Micros, StoreError};
use tollgate_rules::{Problems, RuleFile};

use super::{Engine, Fate};
use crate::{
    rulebook::{Builder, Exempt, ExemptByPolicy, Switches},
    telemetry::OutcomeLabels,
};

/// What books are made from.
#[derive(Debug, Default)]
pub(super) struct Managed {
    files: Vec<RuleFile>,
    switches: Switches,
    exempt: Vec<Exempt>,
    carry: Carry,
    status: RulesStatus,
}

/// How the last reading of the rule files went.
#[derive(Clone, Debug, Default)]
pub struct RulesStatus {
    /// When rules were last put into force.
    pub loaded_at: Option<SystemTime>,
    /// What keeps the files as they are now out of force; the rules before them hold.
    pub problem: Option<String>,
    /// How many times rules were put into force.
    pub generation: u64,
}

/// Why rules could not be put into force.
#[derive(Debug)]
pub enum LoadError {
    /// The files have mistakes.
    Rules(Problems),
    /// The store would not take them.
    Store(StoreError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(problems) => problems.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl Engine {
    /// Puts rules into force, or says why not and keeps what was there.
    pub fn load(&self, files: Result<Vec<RuleFile>, Problems>) -> Result<(), LoadError> {
        let mut managed = self.inner.managed.lock();
        let loaded = files.map_err(LoadError::Rules).and_then(|files| {
            self.publish(&files, &managed.switches, &managed.exempt, managed.carry).map_err(LoadError::Store)?;
            Ok(files)
        });
        let telemetry = &self.inner.telemetry;
        match loaded {
            Ok(files) => {
                managed.files = files;
                managed.status.loaded_at = Some(SystemTime::now());
                managed.status.problem = None;
                managed.status.generation += 1;
                telemetry.reloads.get_or_create(&OutcomeLabels::OK).inc();
                telemetry.stale_rules.set(0);
                Ok(())
            }
            Err(error) => {
                managed.status.problem = Some(error.to_string());
                telemetry.reloads.get_or_create(&OutcomeLabels::FAILED).inc();
                telemetry.stale_rules.set(1);
                Err(error)
            }
        }
    }

    /// What becomes of existing state when numbers change; used amounts stay used unless said otherwise.
    pub fn carry(&self, carry: Carry) {
        self.inner.managed.lock().carry = carry;
    }

    /// Whether limits in Envoy's form, and those that come with its requests, count refused requests; they do unless said
    /// otherwise. To be said before rules are loaded.
    pub fn envoy_counts_refused(&self, counts: bool) {
        self.inner.envoy_counts_refused.store(counts, Ordering::Relaxed);
    }

    /// How the last reading of the rule files went.
    pub fn rules_status(&self) -> RulesStatus {
        self.inner.managed.lock().status.clone()
    }

    /// Turns switches; in force when this returns.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) -> Result<Switches, StoreError> {
        let mut managed = self.inner.managed.lock();
        let mut switches = managed.switches.clone();
        change(&mut switches);
        self.publish(&managed.files, &switches, &managed.exempt, managed.carry)?;
        self.inner.telemetry.upkeep.switched(&switches);
        managed.switches = switches.clone();
        Ok(switches)
    }

    /// Gives a key numbers of its own, in place of any it had; those that have ended are forgotten.
    pub fn exempt(&self, exempt: Exempt) -> Result<(), StoreError> {
        self.change_exempt(|list| {
            list.retain(|other| !other.is_for_key_of(&exempt));
            list.push(exempt);
        })
    }

    /// Takes a key's own numbers back. Says whether it had any.
    pub fn unexempt(&self, domain: &str, policy: &str, key: &str) -> Result<bool, StoreError> {
        let mut found = false;
        self.change_exempt(|list| {
            let before = list.len();
            list.retain(|other| other.domain != domain || other.policy != policy || other.key != key);
            found = list.len() < before;
        })?;
        Ok(found)
    }

    /// Keys that were given numbers of their own by hand.
    pub fn exempted(&self) -> Vec<Exempt> {
        self.inner.managed.lock().exempt.clone()
    }

    /// Keys with numbers of their own in the rule files.
    pub fn overridden(&self) -> Vec<Exempt> {
        let managed = self.inner.managed.lock();
        let entries = managed.files.iter().flat_map(RuleFile::policies);
        entries.flat_map(|entry| entry.overrides.iter().map(|one| Exempt::in_file(&entry.policy, one))).collect()
    }

    fn change_exempt(&self, change: impl FnOnce(&mut Vec<Exempt>)) -> Result<(), StoreError> {
        let mut managed = self.inner.managed.lock();
        let now = self.now_of_store();
        let mut exempt = managed.exempt.clone();
        exempt.retain(|one| one.until.is_none_or(|until| until > now));
        change(&mut exempt);
        self.publish(&managed.files, &managed.switches, &exempt, managed.carry)?;
        managed.exempt = exempt;
        Ok(())
    }

    fn publish(
        &self,
        files: &[RuleFile],
        switches: &Switches,
        exempt: &[Exempt],
        carry: Carry,
    ) -> Result<(), StoreError> {
        let before = self.inner.book.load_full();
        let telemetry = &self.inner.telemetry;
        let exempt = ExemptByPolicy::new(exempt);
        let count_refused = self.inner.envoy_counts_refused.load(Ordering::Relaxed);
        let builder =
            Builder { store: &self.inner.store, telemetry, before: &before, switches, exempt, carry, count_refused };
        self.inner.book.store(Arc::new(builder.build(files)?));
        Ok(())
    }

    fn now_of_store(&self) -> Micros {
        use tollgate_core::Store;
        self.inner.store.now()
    }
}

impl Fate {
    /// The word for it in metrics and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::RefusedAlways => "refused_always",
            Self::Unlimited => "unlimited",
            Self::Replaced => "replaced",
            Self::Unmatched => "no_policy",
            Self::UnknownDomain => "unknown_domain",
            Self::SwitchedOff => "switched_off",
        }
    }
}
