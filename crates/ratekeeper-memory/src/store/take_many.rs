//! Takes of several keys: all of them or none, under the locks of all their shards.

use std::sync::Arc;

use parking_lot::MutexGuard;
use ratekeeper_core::{
    Ask, Decision, Source, StoreError, Take, Terms, Timestamp, Verb,
    store_api::{RequestKey, take_all, take_part},
};

use super::{MemoryStore, policy_handle::InstalledPolicy};
use crate::{
    clock::Clock,
    policies::VersionNode,
    shard::{CheckedOut, HashedKey, Origin, Shard, TakeOutcome},
};

impl<C: Clock> MemoryStore<C> {
    /// Locks every shard concerned in ascending order, so that two requests cannot deadlock.
    pub(super) fn take_many(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        take: &Take,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        self.expire_if_due();
        let keys = asks.iter().map(|ask| self.hash_key(ask)).collect::<Result<Vec<_>, _>>()?;
        if let Some(again) = keys.iter().enumerate().find_map(|(index, key)| {
            keys[..index].iter().any(|other| other.policy.id == key.policy.id && other.key == key.key).then_some(index)
        }) {
            return Err(StoreError::SameKeyTwice { key: asks[again].key.to_owned() });
        }
        let mut wanted: Vec<usize> = keys.iter().map(|key| self.shard_index(key.hash)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut locked: Vec<_> = wanted.iter().map(|&index| (index, self.inner.shards[index].0.lock())).collect();
        let now = self.inner.clock.now();
        let mut shard_of = |key: &HashedKey<'_>| {
            let index = self.shard_index(key.hash);
            locked.iter().position(|(shard, _)| *shard == index).unwrap_or(0)
        };
        let positions: Vec<usize> = keys.iter().map(&mut shard_of).collect();

        if let Some(repeated) = Self::repeated(&keys, &positions, &mut locked, terms, now) {
            return Ok(repeated);
        }
        let mut out: Vec<CheckedOut> =
            keys.iter().zip(&positions).map(|(key, &position)| locked[position].1.check_out_key(key, now)).collect();
        let versions: Vec<Arc<VersionNode>> = out.iter().map(|out| Arc::clone(&out.version)).collect();
        // Overflowed keys of one policy share a count per shard, which is charged for all of them together.
        for ((key, &position), node) in keys.iter().zip(&positions).zip(&versions) {
            let shares = |other: usize| out[other].origin == Origin::Overflow && positions[other] == position;
            let sharing: Vec<usize> =
                (0..keys.len()).filter(|&other| shares(other) && keys[other].policy.id == key.policy.id).collect();
            if let [first, _, ..] = sharing[..] {
                let all = sharing.iter().fold(0, |sum: u64, &other| sum.saturating_add(asks[other].cost));
                let mut shared = out[first].key_state.clone();
                let step = node.version.policy.decide(&mut shared, all, &Verb::Take(*take), now);
                if !step.decision.is_allowed() {
                    // Keys with their own state count the denial here, overflowed ones at check-in.
                    for (out, ask) in out.iter_mut().zip(asks).filter(|(out, _)| out.origin != Origin::Overflow) {
                        out.version.version.policy.count_refused(&mut out.key_state, ask.cost, take, now);
                    }
                    return Ok(self.check_in_all(&keys, &positions, out, &mut locked, asks, take, step.decision, now));
                }
            }
        }
        let each = out.iter_mut().zip(&versions).zip(asks);
        let mut request_keys: Vec<RequestKey<'_>> =
            each.map(|((out, node), ask)| node.version.policy.request_key(&mut out.key_state, ask.cost)).collect();
        let step = match terms.at_least {
            Some(least) => take_part(&mut request_keys, take, least, now),
            None => take_all(&mut request_keys, take, now),
        };
        let costs = request_keys.iter().map(|key| key.cost);
        let asks: Vec<_> = asks.iter().zip(costs).map(|(ask, cost)| ask.cost(cost)).collect();
        let decision = self.check_in_all(&keys, &positions, out, &mut locked, &asks, take, step.decision, now);
        self.record(&keys, &positions, &mut locked, &asks, terms, &decision, now);
        Ok(decision)
    }

    /// Stored keys first: a new key may evict others to get an entry.
    #[allow(clippy::too_many_arguments, reason = "the second half of one function, split where it reads best")]
    fn check_in_all(
        &self,
        keys: &[HashedKey<'_>],
        positions: &[usize],
        out: Vec<CheckedOut>,
        locked: &mut [(usize, MutexGuard<'_, Shard>)],
        asks: &[Ask<'_, InstalledPolicy>],
        take: &Take,
        mut decision: Decision,
        now: Timestamp,
    ) -> Decision {
        let is_unenforced = out.iter().any(|out| out.origin == Origin::Unstored);
        if is_unenforced || out.iter().any(|out| out.origin == Origin::Overflow) {
            decision.source = Source::Overflow;
        }
        let (known, new): (Vec<_>, Vec<_>) =
            keys.iter().zip(positions).zip(out).enumerate().partition(|(_, (_, out))| out.origin == Origin::Stored);
        let refused = !decision.is_allowed();
        for (index, ((key, position), out)) in known.into_iter().chain(new) {
            locked[*position].1.check_in_key(
                key,
                out,
                TakeOutcome { cost: asks[index].cost, take: *take, refused },
                now,
            );
        }
        if let Some((_, shard)) = locked.first_mut() {
            shard.stats.overflowed += u64::from(decision.source == Source::Overflow);
            shard.stats.unenforced += u64::from(is_unenforced);
        }
        decision
    }
}
