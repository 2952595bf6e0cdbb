//! Keys that are decided about together with others: taken out, decided about elsewhere, put back.

use std::sync::Arc;

use tollgate_core::{Micros, Subject, Take, Verb};

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

    /// Puts it back where it belongs, after this take of it was allowed or refused.
    pub(crate) fn put_back(&mut self, key: &Hashed<'_>, out: Out, taken: Taken, now: Micros) {
        let policy = &out.version.version.policy;
        match (out.home, self.find(key)) {
            (Home::Known, Some(index)) => {
                if taken.refused {
                    self.table.get_mut(index).mark_denied();
                }
                self.check_in(index, out.subject, policy, now);
            }
            (Home::Overflow, _) => self.charge_overflow(key, &out.version, taken, now),
            (Home::Unstored, _) => {}
            _ if policy.rests_at(&out.subject, now) <= now => {}
            _ if self.make_room(key.key.len(), &out.subject, now) => {
                self.insert(key, &out.version, out.subject, now);
            }
            _ if self.when_full == WhenFull::Admit => {}
            _ => self.charge_overflow(key, &out.version, taken, now),
        }
    }

    /// Others share that count, so it is added to, not replaced.
    fn charge_overflow(&mut self, key: &Hashed<'_>, meant: &Arc<VersionNode>, taken: Taken, now: Micros) {
        let Taken { take, refused } = taken;
        let policy = &meant.version.policy;
        let verb = Verb::Penalize { cost: if refused { 0 } else { take.cost } };
        let subject = self.overflow_of(key, meant, now);
        let _ = policy.decide(subject, &verb, now);
        if refused {
            policy.count_refused(subject, &take, now);
        }
    }
}

/// What became of a take, as far as one key is concerned.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) take: Take,
    pub(crate) refused: bool,
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
