//! Keys that are decided about together with others: taken out, decided about elsewhere, put back.

use std::sync::Arc;

use tollgate_core::{Micros, Policy, Subject, Verb};

use super::{Hashed, Shard};
use crate::entry::VersionId;

impl Shard {
    /// The key's state under the version that is meant, out of the store until it is put back.
    pub(crate) fn take_out(&mut self, key: &Hashed<'_>, now: Micros) -> Out {
        let (meant, policy) = self.policies.meant(key.policy, key.beside);
        let policy = Arc::clone(policy);
        if let Some(index) = self.find(key) {
            return Out { subject: self.check_out(index, meant, now), home: Home::Known };
        }
        let subject = policy.fresh();
        if self.make_room(key.key.len(), &subject, now) {
            Out { subject, home: Home::New }
        } else {
            Out { subject: self.overflow_of(meant, &policy).clone(), home: Home::Overflow }
        }
    }

    /// Puts it back where it belongs; `charged` is what the key was charged meanwhile, unless it was refused.
    pub(crate) fn put_back(&mut self, key: &Hashed<'_>, out: Out, charged: Option<u64>, now: Micros) {
        let (meant, policy) = self.policies.meant(key.policy, key.beside);
        let policy = Arc::clone(policy);
        match (out.home, self.find(key)) {
            (Home::Known, Some(index)) => {
                if charged.is_none() {
                    self.table.get_mut(index).mark_denied();
                }
                self.check_in(index, out.subject, &policy, now);
            }
            (Home::Overflow, _) => self.charge_overflow(meant, &policy, charged, now),
            _ if policy.rests_at(&out.subject, now) <= now => {}
            _ if self.make_room(key.key.len(), &out.subject, now) => {
                self.insert(key, out.subject, now);
            }
            _ => self.charge_overflow(meant, &policy, charged, now),
        }
    }

    /// Others share that count, so it is added to, not replaced.
    pub(super) fn charge_overflow(&mut self, version: VersionId, policy: &Policy, charged: Option<u64>, now: Micros) {
        let cost = charged.unwrap_or(0);
        let _ = policy.decide(self.overflow_of(version, policy), &Verb::Penalize { cost }, now);
    }
}

/// A key's state while it is out of the store.
pub(crate) struct Out {
    pub(crate) subject: Subject,
    pub(crate) home: Home,
}

/// Where a key's state goes back to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Home {
    /// It was there, and its place is kept.
    Known,
    /// It was not there, and there was room for it.
    New,
    /// There was no room.
    Overflow,
}
