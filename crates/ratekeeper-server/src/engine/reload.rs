//! Changes of the rules at run time: reloads, switches and overrides.
//!
//! A change builds a complete rulebook, whose policies are installed in the store, and publishes it by an atomic swap
//! of one pointer. If rule files have problems or the store returns an error, the previous rulebook stays in force.
//!
//! Changes are serialized by the lock of [`RuleInputs`]; requests never take it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use ratekeeper_core::{OnQuotaChange, StoreError};
use ratekeeper_rules::{Problems, RuleFile};

use super::Engine;
use crate::{
    rulebook::{Builder, Override, OverridesByPolicy, Switches},
    telemetry::{MAX_LISTED, OutcomeLabels, SwitchCounts},
};

/// The inputs of a rulebook.
#[derive(Debug, Default)]
pub(super) struct RuleInputs {
    files: Vec<RuleFile>,
    switches: Switches,
    overrides: Vec<Override>,
    carry: OnQuotaChange,
    status: RulesStatus,
}

/// Status of the last load of the rule files.
#[derive(Clone, Debug, Default)]
pub struct RulesStatus {
    /// Time of the last successful load.
    pub loaded_at: Option<SystemTime>,
    /// The error of the last load, if it failed; the previous rules stay in force.
    pub problem: Option<String>,
    /// Number of successful loads.
    pub generation: u64,
}

/// The reason why a load failed.
#[derive(Debug)]
pub enum LoadError {
    /// The rule files have problems.
    Rules(Problems),
    /// The store could not install a policy.
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
    /// Replaces the rules by those of these files. On an error the previous rules stay in force.
    pub fn load(&self, files: Result<Vec<RuleFile>, Problems>) -> Result<(), LoadError> {
        let mut inputs = self.inner.inputs.lock();
        let loaded = files.map_err(LoadError::Rules).and_then(|files| {
            self.publish(&files, &inputs.switches, &inputs.overrides, inputs.carry).map_err(LoadError::Store)?;
            Ok(files)
        });
        let telemetry = &self.inner.telemetry;
        match loaded {
            Ok(files) => {
                inputs.files = files;
                inputs.status.loaded_at = Some(SystemTime::now());
                inputs.status.problem = None;
                inputs.status.generation += 1;
                telemetry.reloads.get_or_create(&OutcomeLabels::OK).inc();
                telemetry.stale_rules.set(0);
                Ok(())
            }
            Err(error) => {
                inputs.status.problem = Some(error.to_string());
                telemetry.reloads.get_or_create(&OutcomeLabels::FAILED).inc();
                telemetry.stale_rules.set(1);
                Err(error)
            }
        }
    }

    /// Sets how stored state is migrated when the rules of a policy change. By default used permits stay used.
    pub fn carry(&self, carry: OnQuotaChange) {
        self.inner.inputs.lock().carry = carry;
    }

    /// Sets whether limits of the Envoy format and inline limits of Envoy's requests count refused requests. Default:
    /// true. Must be called before rules are loaded.
    pub fn envoy_counts_refused(&self, counts: bool) {
        self.inner.envoy_counts_refused.store(counts, Ordering::Relaxed);
    }

    /// Status of the last load of the rule files.
    pub fn rules_status(&self) -> RulesStatus {
        self.inner.inputs.lock().status.clone()
    }

    /// Changes the switches and returns them. They are in force when this returns.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) -> Result<Switches, StoreError> {
        let mut inputs = self.inner.inputs.lock();
        let mut switches = inputs.switches.clone();
        change(&mut switches);
        self.publish(&inputs.files, &switches, &inputs.overrides, inputs.carry)?;
        self.inner.telemetry.admin_metrics.switched(SwitchCounts {
            everything_off: switches.everything_off,
            everything_shadow: switches.everything_shadow,
            off: switches.off.len(),
            shadow: switches.shadow.len(),
            enforce: switches.enforce.len(),
        });
        inputs.switches = switches.clone();
        Ok(switches)
    }

    /// Adds an override, in place of an earlier one of the admin port for the same key. Expired overrides are removed.
    pub fn add_override(&self, one: Override) -> Result<(), StoreError> {
        self.change_overrides(|list| {
            list.retain(|other| !other.is_for_key_of(&one));
            list.push(one);
        })
    }

    /// Removes the override of a key that [`add_override`](Self::add_override) has made. Returns whether there was one.
    pub fn remove_override(&self, domain: &str, policy: &str, key: &str) -> Result<bool, StoreError> {
        let mut found = false;
        self.change_overrides(|list| {
            let before = list.len();
            list.retain(|other| other.domain != domain || other.policy != policy || other.key != key);
            found = list.len() < before;
        })?;
        Ok(found)
    }

    /// The overrides of the admin port.
    pub fn admin_overrides(&self) -> Vec<Override> {
        self.inner.inputs.lock().overrides.clone()
    }

    /// The overrides of the rule files.
    pub fn file_overrides(&self) -> Vec<Override> {
        let inputs = self.inner.inputs.lock();
        let entries = inputs.files.iter().flat_map(RuleFile::policies);
        entries.flat_map(|entry| entry.overrides.iter().map(|one| Override::from_file(&entry.policy, one))).collect()
    }

    fn change_overrides(&self, change: impl FnOnce(&mut Vec<Override>)) -> Result<(), StoreError> {
        let mut inputs = self.inner.inputs.lock();
        let now = self.store_time();
        let mut overrides = inputs.overrides.clone();
        overrides.retain(|one| one.until.is_none_or(|until| until > now));
        change(&mut overrides);
        self.publish(&inputs.files, &inputs.switches, &overrides, inputs.carry)?;
        inputs.overrides = overrides;
        Ok(())
    }

    fn publish(
        &self,
        files: &[RuleFile],
        switches: &Switches,
        overrides: &[Override],
        carry: OnQuotaChange,
    ) -> Result<(), StoreError> {
        let before = self.inner.book.load_full();
        let telemetry = &self.inner.telemetry;
        let overrides = OverridesByPolicy::new(overrides);
        let count_refused = self.inner.envoy_counts_refused.load(Ordering::Relaxed);
        let builder =
            Builder { store: &self.inner.store, telemetry, before: &before, switches, overrides, carry, count_refused };
        let book = builder.build(files)?;
        let count = book.policy_count();
        telemetry.publish_limits(count, if count > MAX_LISTED { Vec::new() } else { book.policies() });
        self.inner.book.store(Arc::new(book));
        Ok(())
    }
}
