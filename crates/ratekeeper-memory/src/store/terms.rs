//! Requests with terms: ids that are charged once, their commits and cancels, partial grants.
//!
//! They take the path of several keys, also for one: hot slots and the other fast paths know nothing of terms. Requests
//! without terms do not come here, unless they have several keys.

use parking_lot::MutexGuard;
use ratekeeper_core::{
    Ask, Decision, Effect, OnExpiry, RequestId, StoreError, Terms, Timestamp, Verb,
    store_api::{OpenReservation, RequestRecord},
};

use super::{MemoryStore, policy_handle::InstalledPolicy};
use crate::{
    clock::Clock,
    shard::{HashedKey, RecordKey, Recorded, Shard},
};

type Locked<'a> = [(usize, MutexGuard<'a, Shard>)];

impl<C: Clock> MemoryStore<C> {
    pub(super) fn decide_under(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: &Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        match verb {
            Verb::Take(take) if !terms.is_none() => {
                if terms.on_expiry == OnExpiry::Refund {
                    self.inner.expiring.is_full_for(asks.len())?;
                }
                self.take_many(asks, take, terms)
            }
            _ => self.decide_now(asks, verb),
        }
    }

    /// Refunds the reservations that have expired.
    #[cold]
    #[inline(never)]
    pub(super) fn expire_due(&self, now: Timestamp) {
        for OpenReservation { policy, key, id } in self.inner.expiring.take_due(usize::MAX, now) {
            let _ = self.finish(&Ask::new(&policy, &key), id, &Verb::Expire { id });
        }
    }

    /// The decision of the same request before, if one of its keys has a record of it.
    pub(super) fn repeated(
        keys: &[HashedKey<'_>],
        positions: &[usize],
        locked: &mut Locked<'_>,
        terms: &Terms,
        now: Timestamp,
    ) -> Option<Decision> {
        let id = terms.id?;
        let mut each = keys.iter().zip(positions);
        each.find_map(|(key, &position)| {
            let recorded = locked[position].1.recorded(RecordKey { hash: key.hash, id })?;
            (recorded.record.expires > now).then(|| recorded.decision.clone().repeated())
        })
    }

    /// Records an allowed take with an id under each of its keys that was charged. Policies without rules charge nothing.
    #[allow(clippy::too_many_arguments, reason = "the last part of one function, split where it reads best")]
    pub(super) fn record(
        &self,
        keys: &[HashedKey<'_>],
        positions: &[usize],
        locked: &mut Locked<'_>,
        asks: &[Ask<'_, InstalledPolicy>],
        terms: &Terms,
        decision: &Decision,
        now: Timestamp,
    ) {
        let Some(id) = terms.id.filter(|_| decision.is_allowed()) else { return };
        let is_charged = |ask: &Ask<'_, InstalledPolicy>| ask.cost > 0 && has_rules(ask);
        for ((key, &position), ask) in keys.iter().zip(positions).zip(asks).filter(|(_, ask)| is_charged(ask)) {
            let record = RequestRecord::of(decision, ask.cost, terms, now);
            let recorded = Recorded { record, decision: decision.clone() };
            locked[position].1.record(RecordKey { hash: key.hash, id }, recorded, now);
            if record.refunds {
                let open = OpenReservation { policy: ask.policy.clone(), key: ask.key.into(), id };
                self.inner.expiring.add(record.expires, open);
            }
        }
    }

    /// Commits or cancels a request by its id.
    pub(super) fn finish(
        &self,
        ask: &Ask<'_, InstalledPolicy>,
        id: RequestId,
        verb: &Verb,
    ) -> Result<Decision, StoreError> {
        let key = self.hash_key(ask)?;
        let now = self.inner.clock.now();
        let mut shard = self.shard(key.hash).lock();
        if !has_rules(ask) {
            return Ok(shard.decide(&key, 0, &Verb::Peek, now));
        }
        let recorded = shard.recorded(RecordKey { hash: key.hash, id });
        let recorded = recorded.filter(|recorded| recorded.record.is_known_to(verb, now));
        let recorded = recorded.ok_or(StoreError::UnknownId)?;
        let (cost, change) = recorded.record.finish(verb, now).unwrap_or((0, Verb::Peek));
        let charged = recorded.record.charged;
        Ok(shard.decide(&key, cost, &change, now).with_granted(Some(charged)))
    }
}

/// Whether the policy limits its requests; the others deny or exempt all of them.
fn has_rules(ask: &Ask<'_, InstalledPolicy>) -> bool {
    ask.policy.handle.version.policy.effect() == Effect::Limit
}
