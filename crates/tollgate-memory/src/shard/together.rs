//! Keys that are decided about together with others: taken out, decided about elsewhere, put back.

use std::sync::Arc;

use tollgate_core::{Micros, Subject, Verb};

use super::{Hashed, Shard};
use crate::{policies::VersionNode, store::WhenFull};

impl Shard {
    /// The key's state under the version that is meant, out of the store until it is put back.
    pub(crate) fn take_out(&mut self, key: &Hashed<'_>, now: Micros) -> Out {
        let meant = key.policy.meant();
        if let Some(index) = self.find(key) {
            let subject = self.check_out(index, key.policy, &meant, now);
            return Out { subject, home: Home::Known, version: meant };
        }
        let subject = meant.version.policy.fresh();
        if self.make_room(key.key.len(), &subject, now) {
            Out { subject, home: Home::New, version: meant }
        } else if self.when_full == WhenFull::Admit {
            Out { subject, home: Home::Unstored, version: meant }
        } else {
            let subject = self.overflow_of(key, &meant, now).clone();
            Out { subject, home: Home::Overflow, version: meant }
        }
    }

    /// Puts it back where it belongs; `charged` is what the key was charged meanwhile, unless it was refused.
    pub(crate) fn put_back(&mut self, key: &Hashed<'_>, out: Out, charged: Option<u64>, now: Micros) {
        let policy = &out.version.version.policy;
        match (out.home, self.find(key)) {
            (Home::Known, Some(index)) => {
                if charged.is_none() {
                    self.table.get_mut(index).mark_denied();
                }
                self.check_in(index, out.subject, policy, now);
            }
            (Home::Overflow, _) => self.charge_overflow(key, &out.version, charged, now),
            (Home::Unstored, _) => {}
            _ if policy.rests_at(&out.subject, now) <= now => {}
            _ if self.make_room(key.key.len(), &out.subject, now) => {
                self.insert(key, &out.version, out.subject, now);
            }
            _ if self.when_full == WhenFull::Admit => {}
            _ => self.charge_overflow(key, &out.version, charged, now),
        }
    }

    /// Others share that count, so it is added to, not replaced.
    fn charge_overflow(&mut self, key: &Hashed<'_>, meant: &Arc<VersionNode>, charged: Option<u64>, now: Micros) {
        let cost = charged.unwrap_or(0);
        let verb = Verb::Penalize { cost };
        let _ = meant.version.policy.decide(self.overflow_of(key, meant, now), &verb, now);
    }
}

/// A key's state while it is out of the store.
pub(crate) struct Out {
    pub(crate) subject: Subject,
    pub(crate) home: Home,
    /// Which it is counted under.
    pub(crate) version: Arc<VersionNode>,
}

/// Where a key's state goes back to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Home {
    /// It was there, and its place is kept.
    Known,
    /// It was not there, and there was room for it.
    New,
    /// There was no room, and it shares a count with others.
    Overflow,
    /// There was no room, and it is not counted.
    Unstored,
}
