//! The prepaid keys of this process: a table of fixed size.
//!
//! A key is found by its policy and its text, under one short lock, so that a request which an allotment answers needs
//! neither the key's name on the server nor an allocation. Four keys share a lock. A new key evicts the one of the four
//! whose last request is the oldest, among those that hold nothing and have nothing to report; if there is none, the new
//! key is not tracked and asks the store.
//!
//! Bound: [`SETS`] × [`WAYS`] keys, under a kilobyte each.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use ratekeeper_core::{
    DecidedBy, Decision, RuleDecision, RuleDecisions, Source, Span, Timestamp, Verdict,
    store_api::{AllotmentCall, AllotmentReply, least_remaining},
};
use smallvec::SmallVec;

use crate::{
    allotment::{Action, Denial, Holder, HolderConfig, HolderCounts, LocalTime, Served},
    policies::{RedisPolicy, Version},
};

/// The prepaid keys of one store.
#[derive(Debug)]
pub(crate) struct PrepaidKeys {
    sets: Box<[Mutex<Set>]>,
    hasher: RandomState,
    /// Positions of the keys by their names on the server.
    by_name: Mutex<HashMap<Arc<[u8]>, usize>>,
    /// What evicted keys have counted.
    past: Mutex<PrepaidCounts>,
}

type Set = [Option<Box<PrepaidKey>>; WAYS];

/// A prepaid key with its holder.
#[derive(Debug)]
pub(crate) struct PrepaidKey {
    /// The address of the policy's handle, and the key's text.
    policy: usize,
    key: Box<str>,
    name: Arc<[u8]>,
    version: Arc<Version>,
    /// The policy's generation when its rules were read last, and the numbers of the holder.
    generation: u64,
    config: HolderConfig,
    holder: Holder,
    /// What the store has stated of each rule.
    rules: SmallVec<[RuleStatus; 1]>,
    recent: RecentUses,
    /// The next call returns everything.
    returns_all: bool,
    /// Whether the timer knows it.
    pub(crate) is_timed: bool,
    requests: u64,
    denials: u64,
}

/// A rule of a key, as the store has stated it last.
#[derive(Clone, Copy, Debug)]
struct RuleStatus {
    limit: u64,
    remaining: u64,
    reset_at: LocalTime,
    shadow: bool,
}

/// The last uses that no call has reported: their times by the store's clock, and their costs.
#[derive(Debug, Default)]
struct RecentUses {
    uses: [(Timestamp, u64); RECENT],
    next: usize,
}

/// What prepaid keys have counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrepaidCounts {
    pub(crate) requests: u64,
    pub(crate) denials: u64,
    pub(crate) held: u64,
    pub(crate) holders: u64,
    pub(crate) permits: HolderCounts,
}

/// An answer without the store.
#[derive(Debug)]
pub(crate) enum Here {
    /// Decided. `refill` names the key if a call in the background is due.
    Decided { decision: Decision, refill: Option<Arc<[u8]>> },
    /// The store has to decide.
    Ask,
}

impl PrepaidKeys {
    pub(crate) fn new() -> Self {
        Self {
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            by_name: Mutex::default(),
            past: Mutex::default(),
        }
    }

    /// Answers a take, if the key is known and can. One that accepts a wait is not denied here.
    #[inline]
    pub(crate) fn take(&self, policy: &RedisPolicy, key: &str, cost: u64, is_patient: bool, now: LocalTime) -> Here {
        let (id, generation) = (policy.id(), policy.generation());
        let mut set = self.sets[self.position(id, key)].lock();
        let Some(entry) = find(&mut set, id, key) else { return Here::Ask };
        if entry.generation != generation && !entry.change_rules(policy, generation) {
            return Here::Ask;
        }
        let served = entry.holder.take(cost, now, &entry.config);
        entry.answer(served, cost, is_patient, now)
    }

    /// Tracks a key from now on, if there is room.
    pub(crate) fn track(
        &self,
        policy: &RedisPolicy,
        version: &Arc<Version>,
        key: &str,
        name: &[u8],
        cost: u64,
        now: LocalTime,
    ) {
        let Some(config) = version.prepaid else { return };
        let id = policy.id();
        let position = self.position(id, key);
        let mut set = self.sets[position].lock();
        if find(&mut set, id, key).is_some() {
            return;
        }
        let free = set.iter().position(Option::is_none);
        let oldest = || {
            let idle = set.iter().enumerate().filter_map(|(way, entry)| entry.as_deref().map(|entry| (way, entry)));
            let idle = idle.filter(|(_, entry)| !entry.is_timed && !entry.holder.is_waiting());
            idle.min_by_key(|(_, entry)| entry.holder.last_demand()).map(|(way, _)| way)
        };
        let Some(way) = free.or_else(oldest) else { return };
        let name: Arc<[u8]> = name.into();
        let mut holder = Holder::new(fastrand::u64(..), now);
        holder.note_demand(cost, now, &config);
        let entry = PrepaidKey {
            policy: id,
            key: key.into(),
            name: Arc::clone(&name),
            version: Arc::clone(version),
            // Not known together with the version; the next take reads both.
            generation: u64::MAX,
            config,
            holder,
            rules: SmallVec::new(),
            recent: RecentUses::default(),
            returns_all: false,
            is_timed: false,
            requests: 0,
            denials: 0,
        };
        let evicted = set[way].replace(Box::new(entry));
        let mut by_name = self.by_name.lock();
        if let Some(evicted) = evicted {
            by_name.remove(&evicted.name);
            self.past.lock().add(&evicted);
        }
        by_name.insert(name, position * WAYS + way);
    }

    /// Accesses a key by its name on the server; `None` if it is not tracked.
    pub(crate) fn with<T>(&self, name: &[u8], access: impl FnOnce(&mut PrepaidKey) -> T) -> Option<T> {
        let place = *self.by_name.lock().get(name)?;
        let mut set = self.sets[place / WAYS].lock();
        let entry = set[place % WAYS].as_deref_mut().filter(|entry| *entry.name == *name)?;
        Some(access(entry))
    }

    /// All keys that hold permits.
    pub(crate) fn holding(&self) -> Vec<Arc<[u8]>> {
        let mut names = Vec::new();
        for set in &self.sets {
            let set = set.lock();
            names.extend(set.iter().flatten().filter(|key| key.holder.held() > 0).map(|key| Arc::clone(&key.name)));
        }
        names
    }

    pub(crate) fn counts(&self) -> PrepaidCounts {
        let mut counts = *self.past.lock();
        for set in &self.sets {
            for key in set.lock().iter().flatten() {
                counts.add(key);
            }
        }
        counts
    }

    #[inline]
    fn position(&self, policy: usize, key: &str) -> usize {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_usize(policy);
        hasher.write(key.as_bytes());
        #[allow(clippy::cast_possible_truncation, reason = "the remainder is below the number of sets")]
        let position = (hasher.finish() % SETS as u64) as usize;
        position
    }
}

#[inline]
fn find<'a>(set: &'a mut Set, policy: usize, key: &str) -> Option<&'a mut PrepaidKey> {
    set.iter_mut().flatten().find(|entry| entry.policy == policy && *entry.key == *key).map(|entry| &mut **entry)
}

impl PrepaidKey {
    /// The rules have changed. What is held stays valid, because the store keeps it. `false` if the address of a policy that
    /// is gone was reused by another one.
    #[cold]
    fn change_rules(&mut self, policy: &RedisPolicy, generation: u64) -> bool {
        // Read after the generation, so these are the rules of that generation or later ones.
        let version = policy.current();
        let Some(config) = version.prepaid.filter(|_| *version.keys.name(&self.key) == *self.name) else {
            return false;
        };
        if !Arc::ptr_eq(&self.version, &version) {
            self.holder.clear_denial();
        }
        (self.version, self.config, self.generation) = (version, config, generation);
        true
    }

    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Answers a request that has waited for the end of a call.
    pub(crate) fn serve(&mut self, cost: u64, is_patient: bool, now: LocalTime) -> Here {
        let served = self.holder.serve(cost, now, &self.config);
        self.answer(served, cost, is_patient, now)
    }

    #[inline]
    fn answer(&mut self, served: Served, cost: u64, is_patient: bool, now: LocalTime) -> Here {
        match served {
            Served::Granted { refill } => {
                self.requests += 1;
                let decision = self.granted(cost, now);
                Here::Decided { decision, refill: refill.then(|| Arc::clone(&self.name)) }
            }
            Served::Denied(denial) if !is_patient => {
                self.denials += 1;
                Here::Decided { decision: self.denied(&denial, now), refill: None }
            }
            Served::Denied(_) | Served::Ask => Here::Ask,
        }
    }

    /// The next call, if the holder takes part in the protocol; `largest` as in [`Holder::call`].
    pub(crate) fn call(&mut self, largest: u64, now: LocalTime) -> Option<AllotmentCall> {
        let config = self.config;
        if self.holder.is_waiting() || !(self.returns_all || self.holder.takes_part()) {
            return None;
        }
        self.recent = RecentUses::default();
        Some(self.holder.call(largest, std::mem::take(&mut self.returns_all), now, &config))
    }

    /// The reply to a call. Grants that raced with local ones are not used.
    pub(crate) fn reply(
        &mut self,
        seq: u64,
        reply: &AllotmentReply,
        refused: Option<u64>,
        is_sound: bool,
        now: LocalTime,
    ) {
        self.holder.reply(seq, reply, refused, now, &self.config);
        if !is_sound {
            self.holder.forget();
        }
        self.note(&reply.status, now);
    }

    /// A denial of the store by a call outside the protocol.
    pub(crate) fn denied_by_store(&mut self, decision: &Decision, cost: u64, asked: LocalTime, now: LocalTime) {
        if let Verdict::Deny { retry_after } = decision.verdict {
            self.holder.denied(cost, retry_after, asked, now, &self.config);
            self.note(decision, now);
        }
    }

    pub(crate) fn failed(&mut self, seq: u64) {
        self.holder.failed(seq);
    }

    pub(crate) fn tick(&mut self, now: LocalTime) -> Action {
        let action = self.holder.tick(now, &self.config);
        self.returns_all |= action == Action::Return;
        action
    }

    /// Nothing held is used any more, and the next call returns it.
    pub(crate) fn return_all(&mut self) {
        self.holder.recall();
        self.returns_all = true;
    }

    /// Forgets remembered denials.
    pub(crate) fn clear_denial(&mut self) {
        self.holder.clear_denial();
    }

    /// Returns the permits of a use that no call has reported yet; `false` if the store has to be asked.
    pub(crate) fn give_back(&mut self, cost: u64, at: Timestamp, now: LocalTime) -> bool {
        let Some(place) = self.recent.uses.iter().position(|used| *used == (at, cost) && cost > 0) else {
            self.holder.clear_denial();
            return false;
        };
        self.recent.uses[place] = Default::default();
        self.holder.give_back(cost, now)
    }

    /// Drops all permits: the clock cannot be trusted.
    pub(crate) fn forget(&mut self) {
        self.holder.forget();
    }

    pub(crate) fn holds(&self) -> bool {
        self.holder.held() > 0
    }

    pub(crate) fn turn(&self) -> Span {
        self.config.turn
    }

    /// The state of the key as a peek would report it, from what the store has stated last.
    pub(crate) fn status(&self, now: LocalTime) -> Decision {
        self.allowed(now)
    }

    fn note(&mut self, status: &Decision, now: LocalTime) {
        self.rules.clear();
        self.rules.extend(status.rules.iter().map(|rule| RuleStatus {
            limit: rule.limit,
            remaining: rule.remaining,
            reset_at: now + rule.reset_after,
            shadow: rule.shadow,
        }));
    }

    #[inline]
    fn granted(&mut self, cost: u64, now: LocalTime) -> Decision {
        let decision = self.allowed(now);
        self.recent.add(decision.decided_at, cost);
        decision
    }

    /// The rule with the least remaining denies: fewer permits than the cost of the denial remain.
    fn denied(&self, denial: &Denial, now: LocalTime) -> Decision {
        let verdict = Verdict::Deny { retry_after: denial.free_at.since(now).max(Span::MICROSECOND) };
        let held = self.holder.held();
        let enforced = self.rules.iter().enumerate().filter(|(_, rule)| !rule.shadow);
        let denies = enforced.min_by_key(|(_, rule)| rule.remaining).map_or(0, |(index, _)| index);
        let rules = self.rules.iter().enumerate().map(|(index, rule)| match rule.decision(held, now) {
            allowed if index == denies => {
                let remaining = allowed.remaining.min(denial.cost - 1);
                RuleDecision::new(verdict, allowed.limit, remaining, allowed.reset_after)
            }
            allowed => allowed,
        });
        let rules = RuleDecisions::collect(rules);
        let decided_at = self.holder.latest_store_time(now);
        Decision::new(verdict, DecidedBy::Rule(denies), rules, decided_at).with_source(Source::CachedDenial)
    }

    /// An admission with numbers as of the last reply of the store. Permits held here remain as well.
    #[inline]
    fn allowed(&self, now: LocalTime) -> Decision {
        let held = self.holder.held();
        let (rules, decided_by) = match self.rules.as_slice() {
            [one] => (RuleDecisions::one(one.decision(held, now)), DecidedBy::Rule(0)),
            many => {
                let rules = RuleDecisions::collect(many.iter().map(|rule| rule.decision(held, now)));
                let least = least_remaining(&rules);
                (rules, least)
            }
        };
        let verdict = Verdict::Allow { wait: Span::ZERO };
        Decision::new(verdict, decided_by, rules, self.holder.latest_store_time(now)).with_source(Source::Allotment)
    }
}

impl RuleStatus {
    #[inline]
    fn decision(&self, held: u64, now: LocalTime) -> RuleDecision {
        let remaining = if self.shadow { self.remaining } else { self.remaining + held };
        let verdict = Verdict::Allow { wait: Span::ZERO };
        RuleDecision::new(verdict, self.limit, remaining.min(self.limit), self.reset_at.since(now))
            .with_shadow(self.shadow)
    }
}

impl RecentUses {
    #[inline]
    fn add(&mut self, at: Timestamp, cost: u64) {
        self.uses[self.next % RECENT] = (at, cost);
        self.next = self.next.wrapping_add(1);
    }
}

impl PrepaidCounts {
    fn add(&mut self, key: &PrepaidKey) {
        let HolderCounts { granted, used, returned, expired, lost } = key.holder.counts();
        self.requests += key.requests;
        self.denials += key.denials;
        self.held += key.holder.held();
        self.holders += u64::from(key.holder.held() > 0);
        self.permits.granted += granted;
        self.permits.used += used;
        self.permits.returned += returned;
        self.permits.expired += expired;
        self.permits.lost += lost;
    }
}

/// Locks of the table.
const SETS: usize = 8_192;
/// Keys under one lock.
const WAYS: usize = 4;
/// Uses that can be returned without the store.
const RECENT: usize = 8;
