//! Decisions by the local shares, while the store cannot decide.
//!
//! A take of several keys is decided by the shares of all of them, or by none. Each grant has a number, by which a reply of
//! the store recognizes that a grant was made meanwhile, and by which the grant is found when it is refunded.

use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;
use ratekeeper_core::{
    Decision, LeaseId, Release, Take, Timestamp, Verb,
    algorithm::{Algorithm, Charge as Permits, State},
    store_api::{KeyState, Step, take_all},
};

use super::{
    InitialShare, Ledger, NoRoom, RequestKey,
    debt::Debt,
    entry::{ENTRY_BYTES, Entry},
    rebuild::UNKNOWN_HOLDER,
    shard::Shard,
};

impl Ledger {
    /// Decides a take by the shares of all keys. Returns the number of the grant too, 0 if there is none.
    pub(crate) fn take(
        &self,
        parties: &[RequestKey<'_>],
        take: &Take,
        now: Timestamp,
    ) -> Result<(Decision, u64), NoRoom> {
        let mut shards = self.lock(parties);
        let charges = parties.iter().any(|party| party.cost > 0);
        if charges {
            for party in parties {
                let bytes = ENTRY_BYTES + party.name.len() + DEBT_BYTES * party.share().rules().len();
                let shard = shards.of(party.name);
                let keep: Vec<usize> = parties.iter().filter_map(|party| shard.find(party.name)).collect();
                if !shard.make_room(bytes, &keep, now) {
                    return Err(NoRoom);
                }
            }
        }
        let mut subjects: Vec<KeyState> =
            parties.iter().map(|party| self.take_out(shards.of(party.name), party, now)).collect();
        let mut together: Vec<_> = parties
            .iter()
            .zip(&mut subjects)
            .map(|(party, subject)| party.share().request_key(subject, party.cost))
            .collect();
        let Step { decision, changed } = take_all(&mut together, take, now);
        // Rules may count refused requests as well; those are charged like grants.
        let is_granted = (decision.is_allowed() || changed) && charges;
        let grant = if is_granted { self.grants.fetch_add(1, Relaxed) + 1 } else { 0 };
        for (party, subject) in parties.iter().zip(subjects) {
            let granted = (is_granted && party.cost > 0).then_some((grant, now + decision.verdict.wait()));
            self.put_back(shards.of(party.name), party, subject, granted, now);
        }
        Ok((decision, grant))
    }

    /// The remaining permits of a key's share. Allowed even if none remain, unlike a take of 0 under a rule that counts
    /// refused requests.
    pub(crate) fn peek(&self, party: &RequestKey<'_>, now: Timestamp) -> Decision {
        let mut shard = self.shard(party.name).lock();
        let mut subject = self.take_out(&mut shard, party, now);
        let decision = party.share().decide(&mut subject, 0, &Verb::Peek, now).decision;
        self.put_back(&mut shard, party, subject, None, now);
        decision
    }

    /// Refunds permits of a local grant. `false` if it is charged or being charged.
    pub(crate) fn give_back(&self, party: &RequestKey<'_>, verb: &Verb, grant: u64, now: Timestamp) -> bool {
        let mut shard = self.shard(party.name).lock();
        let Some(index) = shard.find(party.name) else { return false };
        let Some(entry) = shard.entry(index) else { return false };
        entry.migrate_to(party.version, now);
        if grant <= entry.frozen_up_to {
            return false;
        }
        let Some(debt) = &mut entry.debt else { return false };
        let _ = party.share().decide(&mut debt.top, party.cost, verb, now);
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        true
    }

    /// Releases or renews a lease. `None` if the lease is not known here.
    pub(crate) fn hold(&self, party: &RequestKey<'_>, verb: &Verb, now: Timestamp) -> Option<Decision> {
        let mut shard = self.shard(party.name).lock();
        let index = shard.find(party.name)?;
        let mut subject = self.take_out(&mut shard, party, now);
        let decision = party.share().decide(&mut subject, party.cost, verb, now).decision;
        if let Some(id) = decision.lease {
            let entry = shard.entry(index)?;
            if entry.debt.is_none() {
                entry.debt = Some(Box::new(Debt::new(entry.base(party.version, self.unknown_key(party), now))));
            }
            let debt = entry.debt.as_mut()?;
            let is_release = matches!(verb, Verb::Release(Release::Lease(_)));
            let knows = |subject: &KeyState| subject.states.iter().any(|state| holds(state, id));
            if is_release && (knows(&debt.base) || debt.frozen.as_ref().is_some_and(|frozen| knows(&frozen.state))) {
                debt.since.released.push(id);
            }
            debt.since.is_changed = true;
            // Numbered like a grant: a call in flight may be granted what was released here.
            (entry.last_grant, entry.granted_at) = (self.grants.fetch_add(1, Relaxed) + 1, now);
        }
        let entry = shard.entry(index)?;
        if let Some(debt) = &mut entry.debt {
            debt.top = subject;
        }
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        decision.lease?;
        Some(decision)
    }

    /// The state to decide on, moved out of its entry if there is one.
    fn take_out(&self, shard: &mut Shard, party: &RequestKey<'_>, now: Timestamp) -> KeyState {
        let unknown_key = || self.unknown_key(party);
        let Some(entry) = shard.find(party.name).and_then(|index| shard.entry(index)) else { return unknown_key() };
        entry.migrate_to(party.version, now);
        match &mut entry.debt {
            Some(debt) => {
                debt.follow(party.share(), now);
                std::mem::take(&mut debt.top)
            }
            None => entry.base(party.version, unknown_key(), now),
        }
    }

    fn put_back(
        &self,
        shard: &mut Shard,
        party: &RequestKey<'_>,
        subject: KeyState,
        granted: Option<(u64, Timestamp)>,
        now: Timestamp,
    ) {
        let index = match (shard.find(party.name), granted) {
            (Some(index), _) => index,
            (None, None) => return,
            (None, Some(_)) => shard.insert(Entry::new(party.name, party.version)),
        };
        let Some(entry) = shard.entry(index) else { return };
        if let Some((grant, goes)) = granted {
            if entry.debt.is_none() {
                entry.debt = Some(Box::new(Debt::new(entry.base(party.version, self.unknown_key(party), now))));
            }
            (entry.last_grant, entry.granted_at) = (grant, now);
            if let Some(debt) = &mut entry.debt {
                debt.since.grants += 1;
                debt.since.is_changed = true;
                debt.since.due = debt.since.due.max(goes);
            }
        }
        if let Some(debt) = &mut entry.debt {
            debt.top = subject;
        }
        let change = shard.account(index);
        self.sum(change);
    }

    /// The state of an unknown key: initial, or, if the store has never been reached, used except for the initial share.
    fn unknown_key(&self, party: &RequestKey<'_>) -> KeyState {
        let mut subject = party.share().fresh();
        if self.store_reached.load(Relaxed) {
            return subject;
        }
        let InitialShare { at, free_permille } = self.start;
        for (rule, state) in party.share().rules().iter().zip(&mut subject.states) {
            let limit = rule.algorithm().limit();
            let free = u128::from(limit) * u128::from(free_permille.min(1_000)) / 1_000;
            let cost = limit - u64::try_from(free).unwrap_or(limit);
            if cost > 0 {
                rule.algorithm().penalize(state, Permits { cost, at, lease: UNKNOWN_HOLDER }, at);
            }
        }
        subject
    }

    fn lock<'a>(&'a self, parties: &[RequestKey<'_>]) -> Locked<'a> {
        let mut indices: Vec<usize> = parties.iter().map(|party| self.shard_index(party.name)).collect();
        indices.sort_unstable();
        indices.dedup();
        // In ascending order, so that two callers cannot deadlock.
        Locked { ledger: self, shards: indices.into_iter().map(|index| (index, self.shards[index].lock())).collect() }
    }
}

/// The locked shards of some keys.
struct Locked<'a> {
    ledger: &'a Ledger,
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
}

impl Locked<'_> {
    #[allow(clippy::expect_used, reason = "only keys that were locked are asked for")]
    fn of(&mut self, name: &[u8]) -> &mut Shard {
        let index = self.ledger.shard_index(name);
        let found = self.shards.iter_mut().find(|(locked, _)| *locked == index);
        &mut found.expect("the shard of every party is locked").1
    }
}

fn holds(state: &State, id: LeaseId) -> bool {
    matches!(state, State::Leases(leases) if leases.leases().iter().any(|lease| lease.id == id))
}

/// Memory reserved per rule before a debt is recorded: two states and their bookkeeping. Lists may exceed it.
const DEBT_BYTES: usize = 256;
