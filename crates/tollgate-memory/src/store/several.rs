//! A take of several keys: all of them or none, each in its shard.

use std::sync::Arc;

use parking_lot::MutexGuard;
use tollgate_core::{Ask, Decision, Micros, Party, Source, StoreError, Take, Verb, take_together};

use super::{MemoryStore, installed::InstalledPolicy};
use crate::{
    clock::Clock,
    policies::VersionNode,
    shard::{Hashed, Home, Out, Shard, Taken},
};

impl<C: Clock> MemoryStore<C> {
    /// Locks every shard concerned, lowest first, so that no two requests can wait for each other.
    pub(super) fn take_several(&self, asks: &[Ask<'_, InstalledPolicy>], take: &Take) -> Result<Decision, StoreError> {
        let keys = asks.iter().map(|ask| self.hashed(ask)).collect::<Result<Vec<_>, _>>()?;
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
        let mut shard_of = |key: &Hashed<'_>| {
            let index = self.shard_index(key.hash);
            locked.iter().position(|(shard, _)| *shard == index).unwrap_or(0)
        };
        let places: Vec<usize> = keys.iter().map(&mut shard_of).collect();

        let takes: Vec<Take> = asks.iter().map(|ask| take.times(ask.times)).collect();
        let mut out: Vec<Out> =
            keys.iter().zip(&places).map(|(key, &place)| locked[place].1.take_out(key, now)).collect();
        let versions: Vec<Arc<VersionNode>> = out.iter().map(|out| Arc::clone(&out.version)).collect();
        // Keys without room share one count per shard and policy, which must bear all of them.
        for ((key, &place), node) in keys.iter().zip(&places).zip(&versions) {
            let shares = |other: usize| out[other].home == Home::Overflow && places[other] == place;
            let sharing: Vec<usize> =
                (0..keys.len()).filter(|&other| shares(other) && keys[other].policy.id == key.policy.id).collect();
            if let [first, _, ..] = sharing[..] {
                let all = take.times(sharing.iter().fold(0, |sum: u64, &other| sum.saturating_add(asks[other].times)));
                let mut shared = out[first].subject.clone();
                let step = node.version.policy.decide(&mut shared, &Verb::Take(all), now);
                if !step.decision.is_allowed() {
                    // Those that have room count the refusal here, those without it when they are put back.
                    for (out, take) in out.iter_mut().zip(&takes).filter(|(out, _)| out.home != Home::Overflow) {
                        out.version.version.policy.count_refused(&mut out.subject, take, now);
                    }
                    return Ok(self.put_all_back(&keys, &places, out, &mut locked, &takes, step.decision, now));
                }
            }
        }
        let each = out.iter_mut().zip(&versions).zip(asks);
        let mut parties: Vec<Party<'_>> =
            each.map(|((out, node), ask)| node.version.policy.party(&mut out.subject).times(ask.times)).collect();
        let step = take_together(&mut parties, take, now);
        Ok(self.put_all_back(&keys, &places, out, &mut locked, &takes, step.decision, now))
    }

    /// Known keys first: they have their place, and newcomers may need to push others out for theirs.
    #[allow(clippy::too_many_arguments, reason = "the second half of one function, split where it reads best")]
    fn put_all_back(
        &self,
        keys: &[Hashed<'_>],
        places: &[usize],
        out: Vec<Out>,
        locked: &mut [(usize, MutexGuard<'_, Shard>)],
        takes: &[Take],
        mut decision: Decision,
        now: Micros,
    ) -> Decision {
        let is_unenforced = out.iter().any(|out| out.home == Home::Unstored);
        if is_unenforced || out.iter().any(|out| out.home == Home::Overflow) {
            decision.source = Source::Overflow;
        }
        let (known, new): (Vec<_>, Vec<_>) =
            keys.iter().zip(places).zip(out).enumerate().partition(|(_, (_, out))| out.home == Home::Known);
        let refused = !decision.is_allowed();
        for (index, ((key, place), out)) in known.into_iter().chain(new) {
            locked[*place].1.put_back(key, out, Taken { take: takes[index], refused }, now);
        }
        if let Some((_, shard)) = locked.first_mut() {
            shard.stats.overflowed += u64::from(decision.source == Source::Overflow);
            shard.stats.unenforced += u64::from(is_unenforced);
        }
        decision
    }
}
