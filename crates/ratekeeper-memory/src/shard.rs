//! One shard of the keys, behind one lock: finds the key, lets the policy decide, stores the new state.
//!
//! A state that is one meter, with no reservation outstanding and no block, is stored in the table entry. Any other is
//! a [`KeyState`] in a slab outside the table ("spilled"). A key may change between the two with every decision.
//!
//! Cleaning is incremental: each decision examines a few entries and removes those that are back to their initial
//! state, which loses nothing. If the budget is spent, the key closest to its initial state among a few candidates is
//! evicted early, but never a limited one: evicting a limited key would let an attacker reset its own limit. If every
//! candidate is limited, the new key is decided as [`WhenFull`] says.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{
    Decision, Policy, Take, Timestamp, Verb, Verdict,
    algorithm::{Meter, State},
    store_api::{Block, Held, KeyState, MeteredTake, RequestKey, take_all},
};

use crate::{
    config::WhenFull,
    entry::{Entry, KeyWords},
    hash::KeyHasher,
    hot::{Hot, SET_KEYS},
    policies::{Handle, VersionNode},
    slab::Slab,
    stats::Stats,
    table::{Table, TableHash},
};

mod eviction;
mod inspect;
mod migrate;
mod multi_key;
mod overflow;
mod promotion;
mod records;
mod storage;
mod versions;

pub(crate) use multi_key::{CheckedOut, Origin, TakeOutcome};
use overflow::{Overflow, OverflowId};
pub(crate) use records::{RecordKey, Recorded, Records};
pub(crate) use versions::{VersionRef, Versions};

#[derive(Debug)]
pub(crate) struct Shard {
    table: Table,
    key_states: Slab<KeyState>,
    long_keys: Slab<Box<[u8]>>,
    versions: Versions,
    /// Bytes that spilled states and long keys point to.
    heap: usize,
    /// Clock hand of the sweep and of eviction.
    hand: usize,
    /// Slot at which the next migration pass continues.
    migrated: usize,
    /// Shared counts of keys for which there was no room, one per policy.
    overflow: HashMap<OverflowId, Overflow>,
    /// Charged requests with an id.
    records: Records,
    budget: usize,
    when_full: WhenFull,
    decisions: u32,
    hasher: KeyHasher,
    hot: Arc<Hot>,
    sets: Box<[HotSet]>,
    pub(crate) stats: Stats,
}

/// Promotion state of a set of hot slots in one word, to save cache: the hash of the key that missed it last, and in the
/// lowest bits the number of free slots.
#[derive(Clone, Copy, Debug)]
struct HotSet(u32);

impl HotSet {
    const EMPTY: Self = Self(SET_KEYS as u32);
    const FREE: u32 = 7;

    fn has_room(self) -> bool {
        self.0 & Self::FREE > 0
    }

    /// Records a miss; true if the last miss was by the same key.
    #[inline]
    fn is_missed_again_by(&mut self, TableHash(hash): TableHash) -> bool {
        let before = self.0;
        self.0 = hash & !Self::FREE | before & Self::FREE;
        (before ^ hash) & !Self::FREE == 0
    }
}

/// A key with its hash, computed once per request.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey<'a> {
    pub(crate) policy: &'a Handle,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) words: KeyWords,
}

impl<'a> HashedKey<'a> {
    #[inline(always)]
    pub(crate) fn new(hasher: &KeyHasher, policy: &'a Handle, key: &'a [u8]) -> Self {
        let words = hasher.words_of(key);
        Self { policy, key, hash: hasher.hash(policy.id, words), words }
    }

    #[inline]
    fn table_hash(&self) -> TableHash {
        table_hash(self.hash)
    }
}

/// Decisions
impl Shard {
    pub(crate) fn new(budget: usize, when_full: WhenFull, hasher: KeyHasher, hot: Arc<Hot>) -> Self {
        Self {
            table: Table::new(),
            key_states: Slab::new(),
            long_keys: Slab::new(),
            versions: Versions::default(),
            heap: 0,
            hand: 0,
            migrated: 0,
            overflow: HashMap::new(),
            records: Records::default(),
            budget,
            when_full,
            decisions: 0,
            hasher,
            sets: vec![HotSet::EMPTY; hot.sets_each()].into(),
            hot,
            stats: Stats::default(),
        }
    }

    /// Fast path: a take of a stored key of the current version. A state of one meter is decided in the entry, any other in
    /// its place in the slab. `None` in other cases; nothing was changed then. Equal to [`decide`](Self::decide) by
    /// tests/same_as_core.rs.
    #[inline(always)]
    pub(crate) fn take_known(
        &mut self,
        key: &HashedKey<'_>,
        cost: u64,
        take: &Take,
        now: Timestamp,
    ) -> Option<Decision> {
        let newest;
        let version = if key.policy.version.is_current() {
            &*key.policy.version
        } else {
            newest = key.policy.head.newest();
            &*newest.version
        };
        let index = if key.words.is_long() {
            self.find(key)?
        } else {
            let versions = &self.versions;
            let is_it = |entry: &Entry| entry.is_short(key.words) && versions.serial(entry.version()) == version.serial;
            self.table.find(key.table_hash(), is_it)?
        };
        let entry = self.table.get_mut(index);
        if entry.is_hot() {
            return None; // promoted since the lookup; `decide` demotes it first
        }
        if self.versions.serial(entry.version()) != version.serial {
            return None;
        }
        let Some(mut meter) = entry.meter() else {
            return self.decide_in_place(index, &version.policy, cost, &Verb::Take(*take), now);
        };
        let MeteredTake { rule, changed, promised } = version.policy.take_metered(&mut meter, cost, take, now)?;
        if let Some(promised) = promised {
            let waiting = with_reservation(meter, promised);
            if !self.make_room_to_spill(&waiting, now) {
                return None; // no room for a reservation; see `decide_metered`
            }
            let index = self.find(key)?; // eviction may have moved the entry
            self.spill(index, waiting);
            return Some(Decision::of_one(rule, now));
        }
        if changed {
            entry.set_meter(meter);
        }
        if matches!(rule.verdict, Verdict::Deny { .. }) {
            entry.mark_denied();
        }
        // Lookups by a superseded version never match a hot slot.
        if !key.words.is_long() && key.policy.version.is_current() {
            self.consider_promotion(index, key, version.serial, meter);
        }
        self.sweep_sometimes(now);
        Some(Decision::of_one(rule, now))
    }

    /// Decides on a spilled state in its place in the slab, without moving it out and in again. The key stays stored even if
    /// it is back to its initial state; the sweep removes it. `None` if the state has to be elsewhere afterwards: a single
    /// meter returns to its entry.
    fn decide_in_place(
        &mut self,
        index: usize,
        policy: &Policy,
        cost: u64,
        verb: &Verb,
        now: Timestamp,
    ) -> Option<Decision> {
        let key_state = self.key_states.get_mut(self.table.get(index).spilled()?)?;
        if key_state.states.len() != policy.rules().len() || matches!(*key_state.states, [State::Meter(_)]) {
            return None;
        }
        let before = heap_bytes(key_state);
        let decision = policy.decide(key_state, cost, verb, now).decision;
        let after = heap_bytes(key_state);
        self.heap = self.heap - before + after;
        mark_if_denied(self.table.get_mut(index), &decision);
        // A list may have grown beyond the budget.
        self.evict_until(|shard| shard.bytes() <= shard.budget, now);
        self.sweep_sometimes(now);
        Some(decision)
    }

    fn sweep_sometimes(&mut self, now: Timestamp) {
        self.decisions = self.decisions.wrapping_add(1);
        if self.decisions.is_multiple_of(SWEEP_EVERY) {
            self.sweep(1, now);
        }
    }

    /// Decides one verb for one key.
    #[inline(never)]
    pub(crate) fn decide(&mut self, key: &HashedKey<'_>, cost: u64, verb: &Verb, now: Timestamp) -> Decision {
        self.sweep(1, now);
        match self.find(key) {
            Some(index) => self.decide_known(index, key, cost, verb, now),
            None => self.decide_new(key, cost, verb, now),
        }
    }

    /// The record of an id, also after the end of its lifetime.
    pub(crate) fn recorded(&mut self, key: RecordKey) -> Option<&mut Recorded> {
        self.records.get(key)
    }

    /// Records a charged request.
    pub(crate) fn record(&mut self, key: RecordKey, recorded: Recorded, now: Timestamp) {
        self.records.insert(key, recorded, self.budget / RECORDS_SHARE, now);
        self.evict_until(|shard| shard.bytes() <= shard.budget, now);
    }

    /// The index of the key's entry. A hot key is demoted first, so that the entry holds its state.
    #[inline]
    fn find(&mut self, key: &HashedKey<'_>) -> Option<usize> {
        let words = key.words;
        let found = self.table.find(key.table_hash(), |entry| {
            entry.may_be(words)
                && self.versions.policy_id(entry.version()) == key.policy.id
                && (!words.is_long() || self.is_long_key(entry, key.key))
        });
        if let Some(index) = found
            && self.table.get(index).is_hot()
        {
            self.demote(index);
        }
        found
    }

    fn is_long_key(&self, entry: &Entry, key: &[u8]) -> bool {
        entry.long_key().and_then(|place| self.long_keys.get(place)).is_some_and(|stored| **stored == *key)
    }

    fn decide_known(&mut self, index: usize, key: &HashedKey<'_>, cost: u64, verb: &Verb, now: Timestamp) -> Decision {
        let target = self.target(index, key);
        let policy = &target.version.policy;
        let entry = self.table.get(index);
        if self.versions.serial(entry.version()) == target.version.serial
            && let Some(meter) = entry.meter()
        {
            return self.decide_metered(index, meter, policy, cost, verb, now);
        }
        if matches!(verb, Verb::Release(_) | Verb::Heartbeat(_))
            && self.versions.serial(entry.version()) == target.version.serial
            && let Some(decision) = self.decide_in_place(index, policy, cost, verb, now)
        {
            return decision;
        }
        let mut key_state = self.check_out(index, key.policy, &target, now);
        let step = policy.decide(&mut key_state, cost, verb, now);
        // Before check-in, which may remove the entry or move it.
        mark_if_denied(self.table.get_mut(index), &step.decision);
        self.check_in(index, key_state, policy, now);
        step.decision
    }

    /// The version that a stored key is decided under: mostly the one it is stored under, which needs no lock.
    fn target(&self, index: usize, key: &HashedKey<'_>) -> Arc<VersionNode> {
        let (asked, id) = (&key.policy.version, self.table.get(index).version());
        match self.versions.held(id) {
            Some(held) if held.node.version.serial == asked.serial && asked.is_current() => Arc::clone(&held.node),
            _ => key.policy.target(),
        }
    }

    /// Any verb for a key whose state is in its entry. Allocates only if the new state has to be spilled.
    fn decide_metered(
        &mut self,
        index: usize,
        meter: Meter,
        policy: &Policy,
        cost: u64,
        verb: &Verb,
        now: Timestamp,
    ) -> Decision {
        let decide = |verb: &Verb| {
            let (mut states, mut promised, mut block) = ([State::Meter(meter)], Timestamp::EPOCH, Block::default());
            let mut key = RequestKey {
                policy,
                promised: &mut promised,
                block: &mut block,
                states: &mut states,
                cost,
                held: Held::NONE,
            };
            let step = match verb {
                Verb::Take(take) => take_all(std::slice::from_mut(&mut key), take, now),
                other => key.adjust(other, now),
            };
            (step, states, promised, block)
        };
        let (mut step, mut states, mut promised, mut block) = decide(verb);
        if let Verb::Take(take) = verb
            && promised > now
            && !self.has_room_to_spill(&with_reservation(meter, promised))
        {
            // No room for a reservation: decide again without a wait.
            (step, states, promised, block) = decide(&Verb::Take(take.without_wait()));
        }
        if step.changed {
            let key_state = |states: [State; 1]| KeyState { promised, block, states: states.into() };
            match states {
                [State::Meter(Meter { used: 0, .. })] if promised <= now && block.until <= now => self.remove(index),
                [State::Meter(meter)] if promised <= now && block.until <= now => {
                    self.table.get_mut(index).set_meter(meter);
                }
                states => self.spill(index, key_state(states)),
            }
        } else {
            mark_if_denied(self.table.get_mut(index), &step.decision);
        }
        step.decision
    }

    fn decide_new(&mut self, key: &HashedKey<'_>, cost: u64, verb: &Verb, now: Timestamp) -> Decision {
        let target = key.policy.target();
        let policy = &target.version.policy;
        if matches!(verb, Verb::Release(_) | Verb::Heartbeat(_)) && self.overflow.contains_key(&OverflowId::of(key)) {
            // The lease may have been granted while there was no room for the key.
            return self.decide_overflow(key, &target, cost, verb, now);
        }
        let mut key_state = policy.fresh();
        let step = policy.decide(&mut key_state, cost, verb, now);
        if !step.changed || policy.reset_at(&key_state, now) <= now {
            return step.decision;
        }
        if self.make_room(key.key.len(), &key_state, now) {
            self.insert(key, &target, key_state, now);
            return step.decision;
        }
        if let Verb::Block { .. } = verb {
            // Blocks are rare and explicit: stored even above the budget, so that other keys keep their state.
            if self.table.is_full() {
                self.resize(self.table.grown());
            }
            self.insert(key, &target, key_state, now);
            return step.decision;
        }
        if self.when_full == WhenFull::Admit {
            return self.unenforced(step.decision);
        }
        self.decide_overflow(key, &target, cost, verb, now)
    }
}

/// A meter with an outstanding reservation.
fn with_reservation(meter: Meter, promised: Timestamp) -> KeyState {
    KeyState { promised, states: vec![State::Meter(meter)], ..KeyState::default() }
}

fn fits_entry(key_state: &KeyState, now: Timestamp) -> Option<Meter> {
    match key_state.states.as_slice() {
        [State::Meter(meter)] if key_state.promised <= now && key_state.block.until <= now => Some(*meter),
        _ => None,
    }
}

fn heap_bytes(key_state: &KeyState) -> usize {
    let lists: usize = key_state.states.iter().map(State::heap_bytes).sum();
    key_state.states.capacity() * size_of::<State>() + lists
}

#[inline]
fn mark_if_denied(entry: &mut Entry, decision: &Decision) {
    if matches!(decision.verdict, Verdict::Deny { .. }) && !entry.is_empty() {
        entry.mark_denied();
    }
}

fn hash_entry(entry: &Entry, versions: &Versions, hasher: &KeyHasher) -> u64 {
    hasher.hash(versions.policy_id(entry.version()), entry.key())
}

#[inline]
fn table_hash(hash: u64) -> TableHash {
    TableHash((hash >> 32) as u32)
}

/// Records take at most one part in this many of the budget.
const RECORDS_SHARE: usize = 4;
/// One entry is swept every so many decisions on the fast path, so that a shard without new keys is cleaned too.
const SWEEP_EVERY: u32 = 32;
