//! Charges: what each key owes the store, under operation ids.
//!
//! A charge is frozen when it is first sent, and keeps its id until its outcome is known. Its amounts are computed anew
//! for each attempt, since the grants drain meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use ratekeeper_core::{
    Timestamp,
    algorithm::{AnyAlgorithm, State},
};

use super::{
    Due, Ledger, RequestKey, StoreCharge, StoreReport,
    debt::{Bill, Owed},
    entry::{Entry, HeldLease},
    rebuild::UNKNOWN_HOLDER,
};
use crate::policies::Version;

impl Ledger {
    /// What is to be charged for this key before the store decides anything else about it. `now` is the store's time;
    /// `instant` is this machine's, which spaces attempts.
    pub(crate) fn due(&self, version: &Arc<Version>, name: &[u8], now: Timestamp, instant: Instant) -> Due {
        if self.owing_keys.load(Relaxed) == 0 {
            return Due::Nothing;
        }
        let mut shard = self.shard(name).lock();
        let Some(index) = shard.find(name) else { return Due::Nothing };
        let Some(entry) = shard.entry(index) else { return Due::Nothing };
        if entry.debt.as_ref().is_some_and(|debt| debt.backoff.is_waiting(instant)) {
            return Due::Later;
        }
        let charge = entry.due(version, &self.sequence, now);
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        charge.map_or(Due::Nothing, Due::Charge)
    }

    /// The store has carried out a charge, now or earlier. Returns how many grants it settles that were open before.
    pub(crate) fn charged(&self, party: &RequestKey<'_>, sequence: u64, report: &StoreReport<'_>) -> u64 {
        self.note_store_reached();
        let mut shard = self.shard(party.name).lock();
        let Some(index) = shard.find(party.name) else { return 0 };
        let Some(entry) = shard.entry(index) else { return 0 };
        let frozen = entry.debt.as_ref().and_then(|debt| debt.frozen.as_ref());
        let grants = frozen.filter(|frozen| frozen.sequence == sequence).map_or(0, |frozen| frozen.granted.grants);
        if frozen.is_some_and(|frozen| frozen.sequence == sequence) {
            entry.charged_up_to = entry.frozen_up_to;
        }
        let is_paid = entry.debt.as_mut().is_some_and(|debt| debt.confirm(sequence));
        if is_paid && let Some(local) = &party.version.local {
            entry.clear_debt();
            if !Arc::ptr_eq(&entry.version, party.version) {
                entry.version = Arc::clone(party.version);
            }
            entry.report.note(report, &local.positions);
        }
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        grants
    }

    /// A charge was not carried out: surely, or as far as is known. If surely, its grants may be refunded here again.
    /// `failed_at` spaces the next attempt; `None` if the server answered, since asking it again does no harm.
    pub(crate) fn not_charged(&self, name: &[u8], sequence: u64, surely: bool, failed_at: Option<Instant>) {
        let mut shard = self.shard(name).lock();
        if let Some(entry) = shard.find(name).and_then(|index| shard.entry(index))
            && let Some(debt) = &mut entry.debt
        {
            if let Some(instant) = failed_at {
                debt.backoff.failed(instant);
            }
            if debt.thaw(sequence, surely) {
                entry.frozen_up_to = entry.charged_up_to;
            }
        }
    }

    /// Some keys that owe something, at most so many. Each is returned once, until it is charged or asked about again.
    pub(crate) fn next_owing_keys(&self, most: usize) -> Vec<(Arc<Version>, Arc<[u8]>)> {
        let mut found = Vec::new();
        if self.owing_keys.load(Relaxed) == 0 {
            return found;
        }
        for shard in &self.shards {
            let mut shard = shard.lock();
            while found.len() < most
                && let Some(key) = shard.next_owing()
            {
                found.push(key);
            }
        }
        found
    }

    /// Puts a key back that [`next_owing_keys`](Self::next_owing_keys) returned and that could not be charged.
    pub(crate) fn requeue(&self, name: &[u8]) {
        let mut shard = self.shard(name).lock();
        if let Some(index) = shard.find(name) {
            shard.account(index);
        }
    }
}

impl Entry {
    fn due(&mut self, version: &Arc<Version>, sequence: &AtomicU64, now: Timestamp) -> Option<StoreCharge> {
        self.migrate_to(version, now);
        let share = self.version.share().clone();
        let debt = self.debt.as_mut()?;
        debt.follow(&share, now);
        if debt.is_void(&share, now) {
            (self.frozen_up_to, self.charged_up_to) = (self.last_grant, self.last_grant);
            self.clear_debt();
            return None;
        }
        loop {
            if debt.frozen.is_none() {
                self.frozen_up_to = self.last_grant;
            }
            let id = debt.freeze(sequence.load(Relaxed) + 1);
            sequence.fetch_max(id, Relaxed);
            let owed = debt.frozen_owed(&share, now)?;
            let granted = &debt.frozen.as_ref()?.granted;
            if owed.iter().all(|owed| *owed == Owed::default()) && granted.released.is_empty() {
                // All of this charge has drained meanwhile; what was granted since goes under the next id.
                debt.confirm(id);
                self.charged_up_to = self.frozen_up_to;
                continue;
            }
            let bill = Bill { owed: version.spread(owed), due: granted.due, released: granted.released.clone() };
            return Some(StoreCharge { sequence: id, bill });
        }
    }

    /// Forgets a debt that is charged or drained, but for the leases that the store now knows of.
    fn clear_debt(&mut self) {
        let Some(debt) = self.debt.take() else { return };
        for (rule, state) in self.version.share().rules().iter().zip(&debt.top.states) {
            if let (AnyAlgorithm::Leases(it), State::Leases(leases)) = (rule.algorithm(), state) {
                let ours = leases.leases().iter().filter(|lease| lease.id != UNKNOWN_HOLDER);
                self.held = ours
                    .map(|lease| HeldLease { id: lease.id, permits: lease.permits, since: lease.until - it.lease() })
                    .collect();
            }
        }
    }
}

impl Version {
    /// What the share's rules are owed, as the rules of the whole policy.
    fn spread(&self, owed: Vec<Owed>) -> Vec<Owed> {
        let mut all = vec![Owed::default(); self.policy.rules().len()];
        let positions = self.local.iter().flat_map(|local| local.positions.iter());
        for (position, owed) in positions.zip(owed) {
            if let Some(rule) = all.get_mut(*position) {
                *rule = owed;
            }
        }
        all
    }
}
