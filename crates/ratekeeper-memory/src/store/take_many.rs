//! Takes of several keys: all of them or none, under the locks of all their shards.

use std::sync::Arc;

use parking_lot::MutexGuard;
use ratekeeper_core::{
    Ask, Decision, RuleDecision, RuleDecisions, Source, Span, StoreError, Take, Terms, Timestamp, Verb, Verdict,
    algorithm::{Meter, State},
    store_api::{Block, Held, RequestKey, least_remaining, take_all, take_part},
};

use smallvec::SmallVec;

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
        let mut keys: Few<HashedKey<'_>> = SmallVec::with_capacity(asks.len());
        let mut shards: Few<usize> = SmallVec::with_capacity(asks.len());
        for ask in asks {
            let key = self.hash_key(ask)?;
            // Equal keys have equal hashes.
            let same = |other: &HashedKey<'_>| {
                other.hash == key.hash && other.policy.id == key.policy.id && other.key == key.key
            };
            if keys.iter().any(same) {
                return Err(StoreError::SameKeyTwice { key: ask.key.to_owned() });
            }
            shards.push(self.shard_index(key.hash));
            keys.push(key);
        }
        let mut wanted = shards.clone();
        wanted.sort_unstable();
        let mut locked: Few<(usize, MutexGuard<'_, Shard>)> = SmallVec::with_capacity(wanted.len());
        for &index in &wanted {
            if locked.last().is_none_or(|(last, _)| *last != index) {
                locked.push((index, self.inner.shards[index].0.lock()));
            }
        }
        let now = self.inner.clock.now();
        let mut positions: Few<usize> = SmallVec::with_capacity(shards.len());
        for index in &shards {
            positions.push(locked.iter().position(|(shard, _)| shard == index).unwrap_or(0));
        }
        if *terms == Terms::NONE
            && let Some(decision) = take_known(&keys, &positions, &mut locked, asks, take, now)
        {
            return Ok(decision);
        }
        Ok(self.take_any(&keys, &positions, &mut locked, asks, take, terms, now))
    }

    /// The general path.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "the second half of one function, split where it reads best")]
    fn take_any(
        &self,
        keys: &[HashedKey<'_>],
        positions: &[usize],
        locked: &mut [(usize, MutexGuard<'_, Shard>)],
        asks: &[Ask<'_, InstalledPolicy>],
        take: &Take,
        terms: &Terms,
        now: Timestamp,
    ) -> Decision {
        if let Some(repeated) = Self::repeated(keys, positions, locked, terms, now) {
            return repeated;
        }
        let mut out: Vec<CheckedOut> =
            keys.iter().zip(positions).map(|(key, &position)| locked[position].1.check_out_key(key, now)).collect();
        let versions: Vec<Arc<VersionNode>> = out.iter().map(|out| Arc::clone(&out.version)).collect();
        // Overflowed keys of one policy share a count per shard, which is charged for all of them together.
        for ((key, &position), node) in keys.iter().zip(positions).zip(&versions) {
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
                    return self.check_in_all(keys, positions, out, locked, asks, take, step.decision, now);
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
        let decision = self.check_in_all(keys, positions, out, locked, &asks, take, step.decision, now);
        self.record(keys, positions, locked, &asks, terms, &decision, now);
        decision
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

/// Lists of a request's keys: most requests have few.
type Few<T> = SmallVec<[T; 4]>;

/// Fast path: keys that are stored, each under the present version of a policy whose state is one meter in the entry. Nothing
/// is allocated. `None` in any other case, and if the new state does not fit the entries; nothing was changed then. Equal to
/// the general path by tests/same_as_core.rs.
fn take_known(
    keys: &[HashedKey<'_>],
    positions: &[usize],
    locked: &mut [(usize, MutexGuard<'_, Shard>)],
    asks: &[Ask<'_, InstalledPolicy>],
    take: &Take,
    now: Timestamp,
) -> Option<Decision> {
    let mut known: Few<(usize, Meter)> = SmallVec::with_capacity(keys.len());
    for (key, &position) in keys.iter().zip(positions) {
        known.push(locked[position].1.known_meter(key)?);
    }
    if let Some(decision) = take_admitted(&known, keys, positions, locked, asks, take, now) {
        return Some(decision);
    }
    let mut states: Few<[State; 1]> = known.iter().map(|(_, meter)| [State::Meter(*meter)]).collect();
    let mut promises: Few<(Timestamp, Block)> = SmallVec::from_elem((Timestamp::EPOCH, Block::default()), keys.len());
    let step = {
        let parts = keys.iter().zip(asks).zip(states.iter_mut().zip(&mut promises));
        let mut request_keys: Few<RequestKey<'_>> = parts
            .map(|((key, ask), (states, (promised, block)))| RequestKey {
                policy: &key.policy.version.policy,
                promised,
                block,
                states,
                cost: ask.cost,
                held: Held::NONE,
            })
            .collect();
        take_all(&mut request_keys, take, now)
    };
    let fits = |([state], (promised, _)): (&[State; 1], &(Timestamp, Block))| {
        *promised <= now && matches!(state, State::Meter(meter) if meter.used > 0)
    };
    if step.changed && !states.iter().zip(&promises).all(fits) {
        return None;
    }
    let denied = !step.decision.is_allowed();
    for (((index, _), &position), [state]) in known.iter().zip(positions).zip(&states) {
        if let State::Meter(meter) = state {
            locked[position].1.set_known_meter(*index, step.changed.then_some(*meter), denied);
        }
    }
    Some(step.decision)
}

/// Fast path of [`take_known`] for requests that every key admits at once: each is decided by the fast path of one meter. `None`
/// if one of them denies or delays the request; nothing was changed then.
#[inline]
fn take_admitted(
    known: &[(usize, Meter)],
    keys: &[HashedKey<'_>],
    positions: &[usize],
    locked: &mut [(usize, MutexGuard<'_, Shard>)],
    asks: &[Ask<'_, InstalledPolicy>],
    take: &Take,
    now: Timestamp,
) -> Option<Decision> {
    let mut rules: Few<RuleDecision> = SmallVec::new();
    let mut charged: Few<(Meter, bool)> = SmallVec::new();
    for (((_, meter), key), ask) in known.iter().zip(keys).zip(asks) {
        let mut meter = *meter;
        let taken = key.policy.version.policy.take_metered(&mut meter, ask.cost, take, now)?;
        if taken.promised.is_some() || taken.rule.verdict != (Verdict::Allow { wait: Span::ZERO }) || meter.used == 0 {
            return None;
        }
        rules.push(taken.rule);
        charged.push((meter, taken.changed));
    }
    for (((index, _), &position), (meter, changed)) in known.iter().zip(positions).zip(&charged) {
        locked[position].1.set_known_meter(*index, changed.then_some(*meter), false);
    }
    let decided_by = least_remaining(&rules);
    let allowed = Verdict::Allow { wait: Span::ZERO };
    Some(Decision::new(allowed, decided_by, RuleDecisions::collect(rules), now))
}
