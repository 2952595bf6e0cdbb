//! Newcomers without room: keys that are decided while the budget is full of keys that must not be evicted.
//!
//! With [`WhenFull::Admit`](crate::WhenFull::Admit) they are answered like keys never seen, and nothing is kept of them.
//! Else they share one count per policy and shard. It is kept under the newest rules like the state of a key, and is given up
//! when it is back to its initial state.
//!
//! Bound: one record per policy that newcomers were asked about under, until its count is back to the initial state.

use std::sync::Arc;

use tollgate_core::{Decision, Micros, Source, Subject, Verb};

use super::{Hashed, Held, Shard};
use crate::policies::{PolicyId, Serial, VersionNode};

/// Who shares a count: newcomers of one policy, and where it has alternatives, of one of them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct OverflowId {
    policy: PolicyId,
    alternative: Option<Serial>,
}

impl OverflowId {
    pub(super) fn of(key: &Hashed<'_>) -> Self {
        let alternative = key.policy.alternative.as_ref().map(|node| node.version.serial);
        Self { policy: key.policy.id, alternative }
    }
}

/// The count that newcomers share.
#[derive(Debug)]
pub(super) struct Overflow {
    held: Held,
    subject: Subject,
}

impl Overflow {
    /// Brings the count to another version of its rules.
    fn migrate(&mut self, to: &Arc<VersionNode>, now: Micros) {
        if self.held.node.version.serial != to.version.serial {
            self.subject = self.held.node.migrate(to, std::mem::take(&mut self.subject), now);
            self.held.node = Arc::clone(to);
        }
    }

    fn is_initial(&self, now: Micros) -> bool {
        self.held.node.version.policy.rests_at(&self.subject, now) <= now
    }
}

impl Shard {
    pub(super) fn decide_overflow(
        &mut self,
        key: &Hashed<'_>,
        meant: &Arc<VersionNode>,
        verb: &Verb,
        now: Micros,
    ) -> Decision {
        let mut decision = meant.version.policy.decide(self.overflow_of(key, meant, now), verb, now).decision;
        decision.source = Source::Overflow;
        self.stats.overflowed += 1;
        decision
    }

    /// Marks the decision of a key that could not be stored and is not counted.
    pub(super) fn unenforced(&mut self, decision: Decision) -> Decision {
        self.stats.overflowed += 1;
        self.stats.unenforced += 1;
        Decision { source: Source::Overflow, ..decision }
    }

    /// The count that this key shares, under the version that is meant.
    pub(super) fn overflow_of(&mut self, key: &Hashed<'_>, meant: &Arc<VersionNode>, now: Micros) -> &mut Subject {
        if self.overflow.len() == self.overflow.capacity() {
            self.overflow.retain(|_, overflow| !overflow.is_initial(now));
        }
        let overflow = self.overflow.entry(OverflowId::of(key)).or_insert_with(|| Overflow {
            held: Held { node: Arc::clone(meant), head: Arc::clone(&key.policy.head) },
            subject: meant.version.policy.fresh(),
        });
        overflow.migrate(meant, now);
        &mut overflow.subject
    }

    /// Gives up counts that are back to their initial state, and brings the others to the newest version.
    pub(super) fn migrate_overflow(&mut self, now: Micros) {
        self.overflow.retain(|id, overflow| {
            if id.alternative.is_none() {
                let newest = overflow.held.head.newest();
                overflow.migrate(&newest, now);
            }
            !overflow.is_initial(now)
        });
    }
}
