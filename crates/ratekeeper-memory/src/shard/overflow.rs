//! Overflow: decisions on new keys while the budget is full of keys that must not be evicted.
//!
//! With [`WhenFull::Admit`](crate::WhenFull::Admit) they are decided like keys never seen, and nothing is stored.
//! Otherwise they share one count per policy and shard. It is migrated like the state of a key, and removed when it is
//! back to its initial state.
//!
//! Bound: one record per policy with overflowed keys, until its count is back to the initial state.

use std::sync::Arc;

use ratekeeper_core::{Decision, Source, Timestamp, Verb, store_api::KeyState};

use super::{HashedKey, Shard, VersionRef};
use crate::{
    policies::{PolicyId, VersionNode},
    version_tag::Serial,
};

/// Identity of a shared count: the policy, and the variant if it has several.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct OverflowId {
    policy: PolicyId,
    variant: Option<Serial>,
}

impl OverflowId {
    pub(super) fn of(key: &HashedKey<'_>) -> Self {
        let variant = key.policy.variant.as_ref().map(|node| node.version.serial);
        Self { policy: key.policy.id, variant }
    }
}

/// The count that the overflowed keys of a policy share.
#[derive(Debug)]
pub(super) struct Overflow {
    held: VersionRef,
    key_state: KeyState,
}

impl Overflow {
    /// Migrates the count to another version of the policy.
    fn migrate(&mut self, to: &Arc<VersionNode>, now: Timestamp) {
        if self.held.node.version.serial != to.version.serial {
            self.key_state = self.held.node.migrate(to, std::mem::take(&mut self.key_state), now);
            self.held.node = Arc::clone(to);
        }
    }

    fn is_initial(&self, now: Timestamp) -> bool {
        self.held.node.version.policy.reset_at(&self.key_state, now) <= now
    }
}

impl Shard {
    pub(super) fn decide_overflow(
        &mut self,
        key: &HashedKey<'_>,
        target: &Arc<VersionNode>,
        cost: u64,
        verb: &Verb,
        now: Timestamp,
    ) -> Decision {
        let mut decision = target.version.policy.decide(self.overflow_of(key, target, now), cost, verb, now).decision;
        decision.source = Source::Overflow;
        self.stats.overflowed += 1;
        decision
    }

    /// Marks the decision of a key that could not be stored and is not counted.
    pub(super) fn unenforced(&mut self, decision: Decision) -> Decision {
        self.stats.overflowed += 1;
        self.stats.unenforced += 1;
        decision.with_source(Source::Overflow)
    }

    /// The count that this key shares, migrated to the target version.
    pub(super) fn overflow_of(
        &mut self,
        key: &HashedKey<'_>,
        target: &Arc<VersionNode>,
        now: Timestamp,
    ) -> &mut KeyState {
        if self.overflow.len() == self.overflow.capacity() {
            self.overflow.retain(|_, overflow| !overflow.is_initial(now));
        }
        let overflow = self.overflow.entry(OverflowId::of(key)).or_insert_with(|| Overflow {
            held: VersionRef { node: Arc::clone(target), head: Arc::clone(&key.policy.head) },
            key_state: target.version.policy.fresh(),
        });
        overflow.migrate(target, now);
        &mut overflow.key_state
    }

    /// Removes counts that are back to their initial state, and migrates the others to the newest version.
    pub(super) fn migrate_overflow(&mut self, now: Timestamp) {
        self.overflow.retain(|id, overflow| {
            if id.variant.is_none() {
                let newest = overflow.held.head.newest();
                overflow.migrate(&newest, now);
            }
            !overflow.is_initial(now)
        });
    }
}
