//! One part of the keys, behind one lock: find the key, let the policy decide, keep what came out.
//!
//! A key whose state is one meter, with nobody waiting and no block, lives in its entry; any other in a [`Subject`]
//! beside the table. Which of the two it is may change with every decision.
//!
//! Room is made in small steps. Every new key looks at a few old ones and lets go of those that are as good as new,
//! which loses nothing. If the budget is spent, the one nearest to new among a handful goes early, but never one
//! that is being limited: whoever could push those out could lift his own limit. If only such are found, the
//! newcomer is counted together with all others in that plight.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{
    Block, Decision, Metered, Micros, Party, Policy, RuleDecision, Subject, Take, Verb, Verdict,
    algorithm::{Meter, State},
    take_together,
};

use crate::{
    entry::{Entry, KeyWords},
    hash::KeyHasher,
    hot::{Hot, SET_KEYS},
    policies::{Handle, VersionNode},
    slab::Slab,
    stats::Stats,
    store::WhenFull,
    table::{Place, Table},
};

mod keep;
mod migrate;
mod overflow;
mod room;
mod together;
mod versions;
mod warm;

use overflow::{Overflow, OverflowId};
pub(crate) use together::{Home, Out, Taken};
pub(crate) use versions::{Held, Versions};

#[derive(Debug)]
pub(crate) struct Shard {
    table: Table,
    subjects: Slab<Subject>,
    long_keys: Slab<Box<[u8]>>,
    versions: Versions,
    /// Bytes that subjects and long keys point to.
    heap: usize,
    /// Where the next look for keys to let go of begins.
    hand: usize,
    /// Where the next look for keys of superseded versions begins.
    migrated: usize,
    /// Keys for which there was no room, counted together per policy.
    overflow: HashMap<OverflowId, Overflow>,
    budget: usize,
    when_full: WhenFull,
    decisions: u32,
    hasher: KeyHasher,
    hot: Arc<Hot>,
    sets: Box<[HotSet]>,
    pub(crate) stats: Stats,
}

/// What a shard knows of a set of hot slots, in one word, because a million keys are in need of every cache line: the last
/// key that it was missed by, and in the lowest bits how many slots are free.
#[derive(Clone, Copy, Debug)]
struct HotSet(u32);

impl HotSet {
    const EMPTY: Self = Self(SET_KEYS as u32);
    const FREE: u32 = 7;

    fn has_room(self) -> bool {
        self.0 & Self::FREE > 0
    }

    /// Notes who it was missed by; says whether that was the last one as well.
    #[inline]
    fn is_missed_again_by(&mut self, Place(who): Place) -> bool {
        let before = self.0;
        self.0 = who & !Self::FREE | before & Self::FREE;
        (before ^ who) & !Self::FREE == 0
    }
}

/// A key on its way through the store: hashed once.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) policy: &'a Handle,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) words: KeyWords,
}

impl<'a> Hashed<'a> {
    #[inline(always)]
    pub(crate) fn new(hasher: &KeyHasher, policy: &'a Handle, key: &'a [u8]) -> Self {
        let words = hasher.words_of(key);
        Self { policy, key, hash: hasher.hash(policy.id, words), words }
    }

    #[inline]
    fn place(&self) -> Place {
        place_of(self.hash)
    }
}

/// Deciding
impl Shard {
    pub(crate) fn new(budget: usize, when_full: WhenFull, hasher: KeyHasher, hot: Arc<Hot>) -> Self {
        Self {
            table: Table::new(),
            subjects: Slab::new(),
            long_keys: Slab::new(),
            versions: Versions::default(),
            heap: 0,
            hand: 0,
            migrated: 0,
            overflow: HashMap::new(),
            budget,
            when_full,
            decisions: 0,
            hasher,
            sets: vec![HotSet::EMPTY; hot.sets_each()].into(),
            hot,
            stats: Stats::default(),
        }
    }

    /// The common case: a take under one meter, for a key that is known and that nobody waits for. `None` if it is
    /// another case; then nothing has happened yet.
    #[inline(always)]
    pub(crate) fn take_known(&mut self, key: &Hashed<'_>, take: &Take, now: Micros) -> Option<RuleDecision> {
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
            self.table.find(key.place(), is_it)?
        };
        let entry = self.table.get_mut(index);
        if entry.is_hot() {
            return None; // it was missed by a hair; take it home first
        }
        let mut meter = entry.meter().filter(|_| self.versions.serial(entry.version()) == version.serial)?;
        let Metered { rule, changed, promised } = version.policy.take_metered(&mut meter, take, now)?;
        if let Some(promised) = promised {
            let waiting = waited_for(meter, promised);
            if !self.make_room_beside(&waiting, now) {
                return None; // nobody can be told to wait; see `decide`
            }
            let index = self.find(key)?; // making room may have moved it
            self.put_beside(index, waiting);
            return Some(rule);
        }
        if changed {
            entry.set_meter(meter);
        }
        if matches!(rule.verdict, Verdict::Deny { .. }) {
            entry.mark_denied();
        }
        // A handle of a superseded version finds no key in a hot slot.
        if !key.words.is_long() && key.policy.version.is_current() {
            self.consider_hot(index, key, version.serial, meter);
        }
        self.decisions = self.decisions.wrapping_add(1);
        if self.decisions.is_multiple_of(LOOK_EVERY) {
            self.look_around(1, now);
        }
        Some(rule)
    }

    /// Decides one verb for one key.
    #[inline(never)]
    pub(crate) fn decide(&mut self, key: &Hashed<'_>, verb: &Verb, now: Micros) -> Decision {
        self.look_around(1, now);
        match self.find(key) {
            Some(index) => self.decide_known(index, key, verb, now),
            None => self.decide_new(key, verb, now),
        }
    }

    /// Where the key stands in the table, with its state there.
    #[inline]
    fn find(&mut self, key: &Hashed<'_>) -> Option<usize> {
        let words = key.words;
        let found = self.table.find(key.place(), |entry| {
            entry.may_be(words)
                && self.versions.policy_id(entry.version()) == key.policy.id
                && (!words.is_long() || self.is_long_key(entry, key.key))
        });
        if let Some(index) = found
            && self.table.get(index).is_hot()
        {
            self.take_home(index);
        }
        found
    }

    fn is_long_key(&self, entry: &Entry, key: &[u8]) -> bool {
        entry.long_key().and_then(|place| self.long_keys.get(place)).is_some_and(|stored| **stored == *key)
    }

    fn decide_known(&mut self, index: usize, key: &Hashed<'_>, verb: &Verb, now: Micros) -> Decision {
        let meant = self.meant(index, key);
        let policy = &meant.version.policy;
        let entry = self.table.get(index);
        if self.versions.serial(entry.version()) == meant.version.serial
            && let Some(meter) = entry.meter()
        {
            return self.decide_metered(index, meter, policy, verb, now);
        }
        let mut subject = self.check_out(index, key.policy, &meant, now);
        let step = policy.decide(&mut subject, verb, now);
        // Before it is put back, which may remove the entry or move it.
        mark_if_denied(self.table.get_mut(index), &step.decision);
        self.check_in(index, subject, policy, now);
        step.decision
    }

    /// The version that a known key is decided under. The one it is counted under is at hand, and mostly the one.
    fn meant(&self, index: usize, key: &Hashed<'_>) -> Arc<VersionNode> {
        let (asked, id) = (&key.policy.version, self.table.get(index).version());
        match self.versions.held(id) {
            Some(held) if held.node.version.serial == asked.serial && asked.is_current() => Arc::clone(&held.node),
            _ => key.policy.meant(),
        }
    }

    /// Any verb for a key whose state stands in its entry, without touching the heap unless it has to leave it.
    fn decide_metered(&mut self, index: usize, meter: Meter, policy: &Policy, verb: &Verb, now: Micros) -> Decision {
        let decide = |verb: &Verb| {
            let (mut states, mut promised, mut block) = ([State::Meter(meter)], Micros::ZERO, Block::default());
            let mut party = Party { policy, promised: &mut promised, block: &mut block, states: &mut states, times: 1 };
            let step = match verb {
                Verb::Take(take) => take_together(std::slice::from_mut(&mut party), take, now),
                other => party.amend(other, now),
            };
            (step, states, promised, block)
        };
        let (mut step, mut states, mut promised, mut block) = decide(verb);
        if let Verb::Take(take) = verb
            && promised > now
            && !self.has_room_beside(&waited_for(meter, promised))
        {
            // No room to remember that somebody waits, so nobody can be told to.
            (step, states, promised, block) = decide(&Verb::Take(Take { max_wait: Micros::ZERO, ..*take }));
        }
        if step.changed {
            let subject = |states: [State; 1]| Subject { promised, block, states: states.into() };
            match states {
                [State::Meter(Meter { used: 0, .. })] if promised <= now && block.until <= now => self.remove(index),
                [State::Meter(meter)] if promised <= now && block.until <= now => {
                    self.table.get_mut(index).set_meter(meter);
                }
                states => self.put_beside(index, subject(states)),
            }
        } else {
            mark_if_denied(self.table.get_mut(index), &step.decision);
        }
        step.decision
    }

    fn decide_new(&mut self, key: &Hashed<'_>, verb: &Verb, now: Micros) -> Decision {
        let meant = key.policy.meant();
        let policy = &meant.version.policy;
        if matches!(verb, Verb::Release(_) | Verb::Heartbeat(_)) && self.overflow.contains_key(&OverflowId::of(key)) {
            // The lease may have been taken when there was no room for the key.
            return self.decide_overflow(key, &meant, verb, now);
        }
        let mut subject = policy.fresh();
        let step = policy.decide(&mut subject, verb, now);
        if !step.changed || policy.rests_at(&subject, now) <= now {
            return step.decision;
        }
        if self.make_room(key.key.len(), &subject, now) {
            self.insert(key, &meant, subject, now);
            return step.decision;
        }
        if let Verb::Block { .. } = verb {
            // Rare and deliberate, and nobody else may suffer for it: this one goes over the budget.
            if self.table.is_full() {
                self.resize(self.table.grown());
            }
            self.insert(key, &meant, subject, now);
            return step.decision;
        }
        if self.when_full == WhenFull::Admit {
            return self.unenforced(step.decision);
        }
        self.decide_overflow(key, &meant, verb, now)
    }
}

/// A meter that somebody was told to wait for.
fn waited_for(meter: Meter, promised: Micros) -> Subject {
    Subject { promised, states: vec![State::Meter(meter)], ..Subject::default() }
}

fn fits_entry(subject: &Subject, now: Micros) -> Option<Meter> {
    match subject.states.as_slice() {
        [State::Meter(meter)] if subject.promised <= now && subject.block.until <= now => Some(*meter),
        _ => None,
    }
}

fn heap_bytes(subject: &Subject) -> usize {
    let lists: usize = subject.states.iter().map(State::heap_bytes).sum();
    subject.states.capacity() * size_of::<State>() + lists
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
fn place_of(hash: u64) -> Place {
    Place((hash >> 32) as u32)
}

/// One slot is looked at every so many decisions, so that a shard without newcomers gets clean as well.
const LOOK_EVERY: u32 = 32;
