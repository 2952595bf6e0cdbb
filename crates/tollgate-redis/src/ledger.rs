//! The local share of every limit, and the local grants that the store has not been charged for.
//!
//! While the store decides, the ledger only notes its last word on each key. When it cannot decide, a key's share starts
//! from that word, and every local grant becomes a [`debt`]. Once the store answers again, a key with a debt is charged
//! before anything else about it is decided there. The ledger knows no socket and no clock: calls come in with their
//! time, and what is to be sent comes out.
//!
//! ```text
//!   heard(word) ─▶ entry ─▶ take() ─▶ debt ─▶ due() ─▶ Charge ─▶ store ─▶ charged(word)
//!                    ▲ the share starts         frozen under an id           │
//!                    └───────────────── the next word ◀──────────────────────┘
//! ```
//!
//! What holds, per key, while the store keeps its state:
//! - One process: the store's grants and local ones together stay within the rule's bound.
//! - A call that was under way at the store while the key was granted something here is decided here again, so that both
//!   sides never spend the same permit. [`heard`](Ledger::heard) finds those; what the store granted counts as spent.
//! - A second outage before the charge continues the same debt: no second share.
//! - Every charge has an id, and an id charges once.
//!
//! Bound: entries and debts stay within a byte budget; see [`shard`].

#[cfg(test)]
mod book;
mod debt;
mod recall;
mod shard;
#[cfg(test)]
mod simulation;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::{
    Decision, LeaseId, Micros, Policy, Release, RuleDecision, Step, Subject, Take, Verb,
    algorithm::{Algorithm, Charge as Permits, Lease, LeaseState, Limiting, State},
    carry_over, take_together,
};

use self::{
    debt::Debt,
    recall::{RuleWord, UNKNOWN_HOLDER, recall},
    shard::{Change, ENTRY_BYTES, Entry, Held, Shard, Word},
};
use crate::{fallback::LocalRules, policies::Version};

#[cfg(test)]
pub(crate) use self::book::book;
pub(crate) use self::debt::{Bill, Owed};

/// Shares and debts of all keys.
#[derive(Debug)]
pub(crate) struct Ledger {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// How much of a share is free for a key while the store has never answered.
    start: Start,
    is_met: AtomicBool,
    sequence: AtomicU64,
    grants: AtomicU64,
    owing_keys: AtomicI64,
    owing_grants: AtomicI64,
}

/// The state of shares before the store has been reached for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// When this process began.
    pub(crate) at: Micros,
    /// Thousandths of a share that are free then.
    pub(crate) free_permille: u32,
}

/// One key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party<'a> {
    pub(crate) version: &'a Arc<Version>,
    /// The key's name on the server.
    pub(crate) name: &'a [u8],
    pub(crate) times: u64,
}

/// Local grants so far, when a call began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

/// What the store said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) verb: &'a Verb,
    /// Of this key's rules, in the policy's order.
    pub(crate) rules: &'a [RuleDecision],
    pub(crate) at: Micros,
    pub(crate) blocked_until: Micros,
    pub(crate) is_allowed: bool,
    pub(crate) wait: Micros,
    pub(crate) lease: Option<LeaseId>,
}

/// A key's grants to be charged, under an id.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) sequence: u64,
    pub(crate) bill: Bill,
}

/// The budget has no room to note a grant, so none is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NoRoom;

/// The store's words
impl Ledger {
    pub(crate) fn new(bytes: usize, start: Start) -> Self {
        let shards = (bytes / SHARD_BYTES).clamp(1, MOST_SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(bytes / shards))).collect(),
            hasher: RandomState::new(),
            start,
            is_met: AtomicBool::new(false),
            sequence: AtomicU64::new(0),
            grants: AtomicU64::new(0),
            owing_keys: AtomicI64::new(0),
            owing_grants: AtomicI64::new(0),
        }
    }

    /// The store has answered, if only a greeting.
    pub(crate) fn meet(&self) {
        if !self.is_met.load(Relaxed) {
            self.is_met.store(true, Relaxed);
        }
    }

    /// Whether it ever has.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met.load(Relaxed)
    }

    /// To be taken before a call to the store begins.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.grants.load(Relaxed))
    }

    /// Notes what the store said of a key, unless something newer is known or the key has a debt.
    ///
    /// `false` if the store granted permits while the same key was granted some here: the caller decides again, here.
    pub(crate) fn heard(&self, party: &Party<'_>, said: &Said<'_>, mark: Mark) -> bool {
        self.meet();
        let Some(local) = &party.version.local else { return true };
        let cost = if let Verb::Take(take) = said.verb { take.times(party.times).cost } else { 0 };
        let rests = |place: &usize| said.rules.get(*place).is_none_or(|rule| rule.reset_after == Micros::ZERO);
        let is_at_rest = said.blocked_until <= said.at && local.places.iter().all(rests);
        let mut shard = self.shard(party.name).lock();
        let index = match shard.find(party.name) {
            Some(index) => index,
            None if is_at_rest => return true,
            None => {
                let bytes = ENTRY_BYTES + party.name.len() + local.places.len() * size_of::<RuleWord>();
                if !shard.make_room(bytes, &[], said.at) {
                    return true;
                }
                shard.insert(Entry::new(party.name, party.version))
            }
        };
        let Some(entry) = shard.entry(index) else { return true };
        if said.is_allowed && cost > 0 && entry.last_grant > mark.0 {
            return false;
        }
        if matches!(said.verb, Verb::Reset) {
            entry.debt = None;
            entry.held.clear();
        }
        if entry.debt.is_none() {
            if !Arc::ptr_eq(&entry.version, party.version) {
                entry.version = Arc::clone(party.version);
            }
            entry.word.note(said, &local.places);
            if party.version.policy.holds() {
                entry.note_lease(said, cost);
            }
        }
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        true
    }

    /// Keys with uncharged grants, and how many grants those are.
    pub(crate) fn owing(&self) -> (u64, u64) {
        let total = |count: &AtomicI64| u64::try_from(count.load(Relaxed)).unwrap_or(0);
        (total(&self.owing_keys), total(&self.owing_grants))
    }

    fn shard(&self, name: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.place_of(name)]
    }

    fn place_of(&self, name: &[u8]) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let hash = self.hasher.hash_one(name) as usize;
        hash % self.shards.len()
    }

    fn sum(&self, change: Change) {
        if change.keys != 0 {
            self.owing_keys.fetch_add(change.keys, Relaxed);
        }
        if change.grants != 0 {
            self.owing_grants.fetch_add(change.grants, Relaxed);
        }
    }
}

/// Decisions without the store
impl Ledger {
    /// A take decided by the shares of all parties, or by none. With it the number of the grant, 0 if there is none.
    pub(crate) fn take(&self, parties: &[Party<'_>], take: &Take, now: Micros) -> Result<(Decision, u64), NoRoom> {
        let mut shards = self.lock(parties);
        if take.cost > 0 {
            for party in parties {
                let bytes = ENTRY_BYTES + party.name.len() + DEBT_BYTES * party.share().rules().len();
                let shard = shards.of(party.name);
                let keep: Vec<usize> = parties.iter().filter_map(|party| shard.find(party.name)).collect();
                if !shard.make_room(bytes, &keep, now) {
                    return Err(NoRoom);
                }
            }
        }
        let mut subjects: Vec<Subject> =
            parties.iter().map(|party| self.take_out(shards.of(party.name), party, now)).collect();
        let mut together: Vec<_> = parties
            .iter()
            .zip(&mut subjects)
            .map(|(party, subject)| party.share().party(subject).times(party.times))
            .collect();
        let Step { decision, changed } = take_together(&mut together, take, now);
        // Rules may count refused requests as well; those are charged like grants.
        let is_granted = (decision.is_allowed() || changed) && take.cost > 0;
        let grant = if is_granted { self.grants.fetch_add(1, Relaxed) + 1 } else { 0 };
        for (party, subject) in parties.iter().zip(subjects) {
            let granted = (is_granted && party.times > 0).then_some((grant, now + decision.wait()));
            self.put_back(shards.of(party.name), party, subject, granted, now);
        }
        Ok((decision, grant))
    }

    /// What the share of a key has left. Passes where nothing is left, unlike a take of 0 under a rule that counts refused
    /// requests.
    pub(crate) fn peek(&self, party: &Party<'_>, now: Micros) -> Decision {
        let mut shard = self.shard(party.name).lock();
        let mut subject = self.take_out(&mut shard, party, now);
        let decision = party.share().decide(&mut subject, &Verb::Peek, now).decision;
        self.put_back(&mut shard, party, subject, None, now);
        decision
    }

    /// Takes back permits of a local grant that is neither charged nor being charged. Says whether it did.
    pub(crate) fn give_back(&self, party: &Party<'_>, verb: &Verb, grant: u64, now: Micros) -> bool {
        let mut shard = self.shard(party.name).lock();
        let Some(index) = shard.find(party.name) else { return false };
        let Some(entry) = shard.entry(index) else { return false };
        entry.carry_to(party.version, now);
        if grant <= entry.frozen_upto {
            return false;
        }
        let Some(debt) = &mut entry.debt else { return false };
        let _ = party.share().decide(&mut debt.top, verb, now);
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        true
    }

    /// Ends or renews a lease; the decision if it is known here.
    pub(crate) fn hold(&self, party: &Party<'_>, verb: &Verb, now: Micros) -> Option<Decision> {
        let mut shard = self.shard(party.name).lock();
        let index = shard.find(party.name)?;
        let mut subject = self.take_out(&mut shard, party, now);
        let decision = party.share().decide(&mut subject, verb, now).decision;
        if let Some(id) = decision.lease {
            let entry = shard.entry(index)?;
            if entry.debt.is_none() {
                entry.debt = Some(Box::new(Debt::new(entry.base(party.version, self.unseen(party), now))));
            }
            let debt = entry.debt.as_mut()?;
            let is_release = matches!(verb, Verb::Release(Release::Lease(_)));
            let knows = |subject: &Subject| subject.states.iter().any(|state| holds(state, id));
            if is_release && (knows(&debt.base) || debt.frozen.as_ref().is_some_and(|frozen| knows(&frozen.state))) {
                debt.since.released.push(id);
            }
            debt.since.is_changed = true;
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

    /// The state to decide on, out of its entry if that has one.
    fn take_out(&self, shard: &mut Shard, party: &Party<'_>, now: Micros) -> Subject {
        let unseen = || self.unseen(party);
        let Some(entry) = shard.find(party.name).and_then(|index| shard.entry(index)) else { return unseen() };
        entry.carry_to(party.version, now);
        match &mut entry.debt {
            Some(debt) => {
                debt.follow(party.share(), now);
                std::mem::take(&mut debt.top)
            }
            None => entry.base(party.version, unseen(), now),
        }
    }

    fn put_back(
        &self,
        shard: &mut Shard,
        party: &Party<'_>,
        subject: Subject,
        granted: Option<(u64, Micros)>,
        now: Micros,
    ) {
        let index = match (shard.find(party.name), granted) {
            (Some(index), _) => index,
            (None, None) => return,
            (None, Some(_)) => shard.insert(Entry::new(party.name, party.version)),
        };
        let Some(entry) = shard.entry(index) else { return };
        if let Some((grant, goes)) = granted {
            if entry.debt.is_none() {
                entry.debt = Some(Box::new(Debt::new(entry.base(party.version, self.unseen(party), now))));
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

    /// A key that nothing is known of: at rest, or, where the store has never been reached, used up but for a part.
    fn unseen(&self, party: &Party<'_>) -> Subject {
        let mut subject = party.share().fresh();
        if self.is_met.load(Relaxed) {
            return subject;
        }
        let Start { at, free_permille } = self.start;
        for (rule, state) in party.share().rules().iter().zip(&mut subject.states) {
            let limit = rule.limiting().limit();
            let free = u128::from(limit) * u128::from(free_permille.min(1_000)) / 1_000;
            let cost = limit - u64::try_from(free).unwrap_or(limit);
            if cost > 0 {
                rule.limiting().penalize(state, Permits { cost, at, lease: UNKNOWN_HOLDER }, at);
            }
        }
        subject
    }

    fn lock<'a>(&'a self, parties: &[Party<'_>]) -> Locked<'a> {
        let mut places: Vec<usize> = parties.iter().map(|party| self.place_of(party.name)).collect();
        places.sort_unstable();
        places.dedup();
        // In ascending order, so that two callers never wait for each other.
        Locked { ledger: self, shards: places.into_iter().map(|place| (place, self.shards[place].lock())).collect() }
    }
}

/// Charges
impl Ledger {
    /// What is to be charged for this key before the store decides anything else about it; none if nothing is.
    pub(crate) fn due(&self, version: &Arc<Version>, name: &[u8], now: Micros) -> Option<Charge> {
        if self.owing_keys.load(Relaxed) == 0 {
            return None;
        }
        let mut shard = self.shard(name).lock();
        let index = shard.find(name)?;
        let charge = shard.entry(index)?.due(version, &self.sequence, now);
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        charge
    }

    /// The store has carried out a charge, now or earlier. Says how many grants that were which were open before.
    pub(crate) fn charged(&self, party: &Party<'_>, sequence: u64, said: &Said<'_>) -> u64 {
        self.meet();
        let mut shard = self.shard(party.name).lock();
        let Some(index) = shard.find(party.name) else { return 0 };
        let Some(entry) = shard.entry(index) else { return 0 };
        let frozen = entry.debt.as_ref().and_then(|debt| debt.frozen.as_ref());
        let grants = frozen.filter(|frozen| frozen.sequence == sequence).map_or(0, |frozen| frozen.granted.grants);
        if frozen.is_some_and(|frozen| frozen.sequence == sequence) {
            entry.charged_upto = entry.frozen_upto;
        }
        let is_paid = entry.debt.as_mut().is_some_and(|debt| debt.confirm(sequence));
        if is_paid && let Some(local) = &party.version.local {
            entry.pay_off();
            if !Arc::ptr_eq(&entry.version, party.version) {
                entry.version = Arc::clone(party.version);
            }
            entry.word.note(said, &local.places);
        }
        let change = shard.account(index);
        drop(shard);
        self.sum(change);
        grants
    }

    /// A charge was not carried out: surely, or as far as is known. If surely, its grants may be taken back here again.
    pub(crate) fn not_charged(&self, name: &[u8], sequence: u64, surely: bool) {
        let mut shard = self.shard(name).lock();
        if let Some(entry) = shard.find(name).and_then(|index| shard.entry(index))
            && entry.debt.as_mut().is_some_and(|debt| debt.thaw(sequence, surely))
        {
            entry.frozen_upto = entry.charged_upto;
        }
    }

    /// Some keys that owe something, at most so many. Each is named once, until it is charged or asked about again.
    pub(crate) fn some_owing(&self, most: usize) -> Vec<(Arc<Version>, Arc<[u8]>)> {
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

    /// A key that was named and could not be charged is to be named again.
    pub(crate) fn name_again(&self, name: &[u8]) {
        let mut shard = self.shard(name).lock();
        if let Some(index) = shard.find(name) {
            shard.account(index);
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }
}

impl Party<'_> {
    fn share(&self) -> &Policy {
        self.version.share()
    }
}

impl Version {
    fn share(&self) -> &Policy {
        self.local.as_ref().map_or(&self.policy, |local: &LocalRules| &local.share)
    }
}

impl Entry {
    /// The share's state by the store's last word, under these rules.
    fn base(&self, version: &Arc<Version>, unseen: Subject, now: Micros) -> Subject {
        let old = &self.version;
        let Some(local) = old.local.as_ref().filter(|_| !self.word.rules.is_empty()) else { return unseen };
        let mut subject = local.share.fresh();
        let rules = local.places.iter().filter_map(|place| old.policy.rules().get(*place));
        let words = rules.zip(local.share.rules()).zip(&self.word.rules);
        for (state, ((whole, share), word)) in subject.states.iter_mut().zip(words) {
            *state = recall(whole.limiting(), share.limiting(), *word, self.word.at);
            if let Limiting::Leases(it) = share.limiting() {
                self.name_holders(state, it.lease());
            }
        }
        if self.word.blocked_until > now {
            subject.block.since = self.word.at.min(now);
            subject.block.until = self.word.blocked_until;
        }
        if Arc::ptr_eq(old, version) {
            return subject;
        }
        carry_over(&local.share, version.share(), subject, version.carry, now)
    }

    /// Leases of this process by their names, so that they can be ended here; the rest stays without.
    fn name_holders(&self, state: &mut State, lease: Micros) {
        let State::Leases(leases) = state else { return };
        let known = self.held.iter().map(|held| held.until(lease)).filter(|lease| lease.until > self.word.at);
        let known: Vec<Lease> = known.collect();
        let named: u64 = known.iter().map(|lease| lease.permits).sum();
        let used: u64 = leases.leases().iter().map(|lease| lease.permits).sum();
        let ends = |leases: &[Lease]| leases.iter().map(|lease| lease.until).max();
        if named >= used && ends(&known) < ends(leases.leases()) {
            return; // some of ours were ended by others, so what is held is not ours
        }
        let mut all: Vec<Lease> = leases.leases().to_vec();
        for unknown in &mut all {
            unknown.permits = unknown.permits.saturating_sub(named);
        }
        all.retain(|lease| lease.permits > 0);
        all.extend(known);
        all.sort_by_key(|lease| lease.until);
        **leases = LeaseState::restore(leases.last(), all);
    }

    /// Carries a debt over to other rules.
    fn carry_to(&mut self, version: &Arc<Version>, now: Micros) {
        if let Some(debt) = &mut self.debt
            && !Arc::ptr_eq(&self.version, version)
        {
            for subject in debt.subjects() {
                let old = std::mem::take(subject);
                *subject = carry_over(self.version.share(), version.share(), old, version.carry, now);
            }
            self.version = Arc::clone(version);
            self.word = Word::default();
        }
    }

    fn due(&mut self, version: &Arc<Version>, sequence: &AtomicU64, now: Micros) -> Option<Charge> {
        self.carry_to(version, now);
        let share = self.version.share().clone();
        let debt = self.debt.as_mut()?;
        debt.follow(&share, now);
        if debt.is_void(&share, now) {
            (self.frozen_upto, self.charged_upto) = (self.last_grant, self.last_grant);
            self.pay_off();
            return None;
        }
        loop {
            if debt.frozen.is_none() {
                self.frozen_upto = self.last_grant;
            }
            let id = debt.freeze(sequence.load(Relaxed) + 1);
            sequence.fetch_max(id, Relaxed);
            let owed = debt.frozen_owed(&share, now)?;
            let granted = &debt.frozen.as_ref()?.granted;
            if owed.iter().all(|owed| *owed == Owed::default()) && granted.released.is_empty() {
                // All of this charge has drained meanwhile; what was granted since goes under the next id.
                debt.confirm(id);
                self.charged_upto = self.frozen_upto;
                continue;
            }
            let bill = Bill { owed: version.spread(owed), due: granted.due, released: granted.released.clone() };
            return Some(Charge { sequence: id, bill });
        }
    }

    /// Forgets a debt that is charged or drained, but for the leases that the store now knows of.
    fn pay_off(&mut self) {
        let Some(debt) = self.debt.take() else { return };
        for (rule, state) in self.version.share().rules().iter().zip(&debt.top.states) {
            if let (Limiting::Leases(it), State::Leases(leases)) = (rule.limiting(), state) {
                let ours = leases.leases().iter().filter(|lease| lease.id != UNKNOWN_HOLDER);
                self.held = ours
                    .map(|lease| Held { id: lease.id, permits: lease.permits, since: lease.until - it.lease() })
                    .collect();
            }
        }
    }

    fn note_lease(&mut self, said: &Said<'_>, cost: u64) {
        match *said.verb {
            Verb::Take(_) if said.is_allowed && cost > 0 => {
                if let Some(id) = said.lease {
                    let longest = leases_of(self.version.share()).max().unwrap_or_default();
                    self.held.retain(|held| held.since + longest > said.at);
                    self.held.push(Held { id, permits: cost, since: said.at + said.wait });
                }
            }
            Verb::Release(Release::Lease(id)) | Verb::Undo { lease: Some(id), .. } => {
                self.held.retain(|held| held.id != id);
            }
            Verb::Heartbeat(id) if said.lease.is_some() => {
                if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
                    held.since = held.since.max(said.at);
                }
            }
            _ => {}
        }
    }
}

impl Version {
    /// What the share's rules are owed, as the rules of the whole policy.
    fn spread(&self, owed: Vec<Owed>) -> Vec<Owed> {
        let mut all = vec![Owed::default(); self.policy.rules().len()];
        let places = self.local.iter().flat_map(|local| local.places.iter());
        for (place, owed) in places.zip(owed) {
            if let Some(rule) = all.get_mut(*place) {
                *rule = owed;
            }
        }
        all
    }
}

impl Held {
    fn until(&self, lease: Micros) -> Lease {
        Lease { id: self.id, permits: self.permits, until: self.since + lease }
    }
}

impl Word {
    /// Keeps the newer word; of two that were said at one moment, the stricter. A word from well before the last one
    /// was said by another clock, and counts as newer.
    fn note(&mut self, said: &Said<'_>, places: &[usize]) {
        let rules = || places.iter().filter_map(|place| said.rules.get(*place));
        let back = self.at - said.at;
        if back > Micros::ZERO && back <= CLOCKS_AGREE && !self.rules.is_empty() {
            return;
        }
        if said.at == self.at && self.rules.len() == places.len() {
            for (kept, rule) in self.rules.iter_mut().zip(rules()) {
                kept.remaining = kept.remaining.min(rule.remaining);
                kept.reset_after = kept.reset_after.max(rule.reset_after);
            }
        } else {
            self.rules.clear();
            self.rules
                .extend(rules().map(|rule| RuleWord { remaining: rule.remaining, reset_after: rule.reset_after }));
        }
        (self.at, self.blocked_until) = (said.at, said.blocked_until);
    }
}

/// The shards that some keys lie in.
struct Locked<'a> {
    ledger: &'a Ledger,
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
}

impl Locked<'_> {
    #[allow(clippy::expect_used, reason = "only keys that were locked are asked for")]
    fn of(&mut self, name: &[u8]) -> &mut Shard {
        let place = self.ledger.place_of(name);
        let found = self.shards.iter_mut().find(|(locked, _)| *locked == place);
        &mut found.expect("the shard of every party is locked").1
    }
}

fn holds(state: &State, id: LeaseId) -> bool {
    matches!(state, State::Leases(leases) if leases.leases().iter().any(|lease| lease.id == id))
}

fn leases_of(policy: &Policy) -> impl Iterator<Item = Micros> + '_ {
    policy.rules().iter().filter_map(|rule| match rule.limiting() {
        Limiting::Leases(it) => Some(it.lease()),
        _ => None,
    })
}

/// Keys are spread over so many locks at most, of so many bytes each at least.
const MOST_SHARDS: usize = 64;
const SHARD_BYTES: usize = 64 << 10;
/// Room that is made for a debt before it is made, per rule: two states and what goes with them. Lists may grow beyond.
const DEBT_BYTES: usize = 256;
/// Replies are processed within this time of each other; a server's clock that differs by more is another clock.
const CLOCKS_AGREE: Micros = Micros(5_000_000);
