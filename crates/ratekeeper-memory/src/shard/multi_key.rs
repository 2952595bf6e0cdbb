//! Multi-key decisions: the states of all keys are checked out, decided in one step, and checked in again.

use std::sync::Arc;

use ratekeeper_core::{Take, Timestamp, Verb, algorithm::Meter, store_api::KeyState};

use super::{HashedKey, Shard};
use crate::{config::WhenFull, policies::VersionNode};

impl Shard {
    /// The entry and the meter of a stored key whose version is current; `None` if its state is elsewhere. The index is
    /// valid until an entry is added or removed.
    pub(crate) fn known_meter(&mut self, key: &HashedKey<'_>) -> Option<(usize, Meter)> {
        if !key.policy.version.is_current() {
            return None;
        }
        let index = self.find(key)?;
        let entry = self.table.get(index);
        let is_of_version = self.versions.serial(entry.version()) == key.policy.version.serial;
        entry.meter().filter(|_| is_of_version).map(|meter| (index, meter))
    }

    /// Stores the meter of [`known_meter`](Self::known_meter) again, if it has changed, and notes a denial.
    pub(crate) fn set_known_meter(&mut self, index: usize, meter: Option<Meter>, denied: bool) {
        let entry = self.table.get_mut(index);
        if let Some(meter) = meter {
            entry.set_meter(meter);
        }
        if denied {
            entry.mark_denied();
        }
    }

    /// Checks a key's state out, migrated to its target version.
    pub(crate) fn check_out_key(&mut self, key: &HashedKey<'_>, now: Timestamp) -> CheckedOut {
        let target = key.policy.target();
        if let Some(index) = self.find(key) {
            let key_state = self.check_out(index, key.policy, &target, now);
            return CheckedOut { key_state, origin: Origin::Stored, version: target };
        }
        let key_state = target.version.policy.fresh();
        if self.make_room(key.key.len(), &key_state, now) {
            CheckedOut { key_state, origin: Origin::New, version: target }
        } else if self.when_full == WhenFull::Admit {
            CheckedOut { key_state, origin: Origin::Unstored, version: target }
        } else {
            let key_state = self.overflow_of(key, &target, now).clone();
            CheckedOut { key_state, origin: Origin::Overflow, version: target }
        }
    }

    /// Checks a key's state in after the take was allowed or denied.
    pub(crate) fn check_in_key(&mut self, key: &HashedKey<'_>, out: CheckedOut, taken: TakeOutcome, now: Timestamp) {
        let policy = &out.version.version.policy;
        match (out.origin, self.find(key)) {
            (Origin::Stored, Some(index)) => {
                if taken.refused {
                    self.table.get_mut(index).mark_denied();
                }
                self.check_in(index, out.key_state, policy, now);
            }
            (Origin::Overflow, _) => self.charge_overflow(key, &out.version, taken, now),
            (Origin::Unstored, _) => {}
            _ if policy.reset_at(&out.key_state, now) <= now => {}
            _ if self.make_room(key.key.len(), &out.key_state, now) => {
                self.insert(key, &out.version, out.key_state, now);
            }
            _ if self.when_full == WhenFull::Admit => {}
            _ => self.charge_overflow(key, &out.version, taken, now),
        }
    }

    /// The count is shared, so the take is added to it instead of replacing it.
    fn charge_overflow(&mut self, key: &HashedKey<'_>, target: &Arc<VersionNode>, taken: TakeOutcome, now: Timestamp) {
        let TakeOutcome { cost, take, refused } = taken;
        let policy = &target.version.policy;
        let key_state = self.overflow_of(key, target, now);
        let _ = policy.decide(key_state, if refused { 0 } else { cost }, &Verb::Penalize, now);
        if refused {
            policy.count_refused(key_state, cost, &take, now);
        }
    }
}

/// The outcome of a take for one key.
#[derive(Clone, Copy)]
pub(crate) struct TakeOutcome {
    pub(crate) cost: u64,
    pub(crate) take: Take,
    pub(crate) refused: bool,
}

/// A key's state while it is checked out.
pub(crate) struct CheckedOut {
    pub(crate) key_state: KeyState,
    pub(crate) origin: Origin,
    /// The version the state belongs to.
    pub(crate) version: Arc<VersionNode>,
}

/// Where a checked-out state came from, and so where it goes at check-in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// An entry, which still exists.
    Stored,
    /// No entry; there is room for one.
    New,
    /// No room; the shared count of the policy.
    Overflow,
    /// No room; not counted.
    Unstored,
}
