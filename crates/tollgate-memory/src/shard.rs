//! One part of the keys, behind one lock: find the key, let the policy decide, keep what came out.
//!
//! A key whose state is one meter, with nobody waiting and no block, lives in its entry; any other in a [`Subject`]
//! beside the table. Which of the two it is may change with every decision.
//!
//! Room is made in small steps. Every new key looks at a few old ones and lets go of those that are as good as new,
//! which loses nothing. If the budget is spent, the one nearest to new among a handful goes early, but never one
//! that is being limited: whoever could push those out could lift his own limit. If only such are found, the
//! newcomer is counted together with all others in that plight.

use std::sync::Arc;

use tollgate_core::{
    Block, Carry, Decision, Metered, Micros, Party, Policy, RuleDecision, Source, Subject, Take, Verb, Verdict,
    algorithm::{Meter, State},
    take_together,
};

use crate::{
    entry::{Entry, KeyWords, VersionId},
    hash::KeyHasher,
    hot::{Hot, SET_KEYS},
    policies::{Policies, PolicyId},
    slab::Slab,
    stats::Stats,
    table::{Place, Table},
};

mod keep;
mod room;
mod together;
mod warm;

pub(crate) use together::{Home, Out};

#[derive(Debug)]
pub(crate) struct Shard {
    table: Table,
    subjects: Slab<Subject>,
    long_keys: Slab<Box<[u8]>>,
    pub(crate) policies: Policies,
    /// Bytes that subjects and long keys point to.
    heap: usize,
    /// Where the next look for keys to let go of begins.
    hand: usize,
    /// Keys for which there was no room, counted together per policy.
    overflow: Vec<(VersionId, Subject)>,
    budget: usize,
    decisions: u32,
    hasher: KeyHasher,
    /// Which of the shards this is.
    number: usize,
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
    pub(crate) policy: PolicyId,
    /// Which version is meant, where versions stand beside each other; else it is the newest.
    pub(crate) beside: Option<VersionId>,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) words: KeyWords,
}

impl<'a> Hashed<'a> {
    #[inline(always)]
    pub(crate) fn new(hasher: &KeyHasher, policy: PolicyId, beside: Option<VersionId>, key: &'a [u8]) -> Self {
        let words = hasher.words_of(key);
        Self { policy, beside, key, hash: hasher.hash(policy, words), words }
    }

    #[inline]
    fn place(&self) -> Place {
        place_of(self.hash)
    }
}

/// Deciding
impl Shard {
    pub(crate) fn new(number: usize, budget: usize, hasher: KeyHasher, hot: Arc<Hot>) -> Self {
        Self {
            table: Table::new(),
            subjects: Slab::new(),
            long_keys: Slab::new(),
            policies: Policies::default(),
            heap: 0,
            hand: 0,
            overflow: Vec::new(),
            budget,
            decisions: 0,
            hasher,
            sets: vec![HotSet::EMPTY; hot.sets_each()].into(),
            number,
            hot,
            stats: Stats::default(),
        }
    }

    /// Adds a version of a policy. Hot keys are counted under the newest version only, so they come home first.
    pub(crate) fn install(&mut self, policy: &Arc<Policy>, known: Option<PolicyId>, carry: Carry) -> Option<PolicyId> {
        // Keys of a policy that is new cannot be hot.
        if known.is_some() {
            self.take_all_home();
        }
        self.policies.install(policy, known, carry)
    }

    /// Adds a version that replaces none, so that hot keys can stay where they are.
    pub(crate) fn install_beside(&mut self, policy: &Arc<Policy>, known: Option<PolicyId>) -> Option<PolicyId> {
        self.policies.install_beside(policy, known)
    }

    /// The common case: a take under one meter, for a key that is known and that nobody waits for. `None` if it is
    /// another case; then nothing has happened yet.
    #[inline(always)]
    pub(crate) fn take_known(&mut self, key: &Hashed<'_>, take: &Take, now: Micros) -> Option<RuleDecision> {
        let index = if key.words.is_long() {
            self.find(key)?
        } else {
            let (meant, _) = self.policies.meant(key.policy, key.beside);
            self.table.find(key.place(), |entry| entry.is_short(key.words, meant))?
        };
        let (meant, policy) = self.policies.meant(key.policy, key.beside);
        let entry = self.table.get_mut(index);
        if entry.is_hot() {
            return None; // it was missed by a hair; take it home first
        }
        let mut meter = entry.meter().filter(|_| entry.version() == meant)?;
        let Metered { rule, changed, promised } = policy.take_metered(&mut meter, take, now)?;
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
        } else if matches!(rule.verdict, Verdict::Deny { .. }) {
            entry.mark_denied();
        }
        if !key.words.is_long() {
            self.consider_hot(index, key, meant, meter);
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
        let (meant, _) = self.policies.meant(key.policy, key.beside);
        let found = self.table.find(key.place(), |entry| {
            entry.may_be(words)
                && (entry.version() == meant || self.policies.id(entry.version()) == key.policy)
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
        let (meant, policy) = self.policies.meant(key.policy, key.beside);
        let policy = Arc::clone(policy);
        if self.table.get(index).version() == meant
            && let Some(meter) = self.table.get(index).meter()
        {
            return self.decide_metered(index, meter, &policy, verb, now);
        }
        let mut subject = self.check_out(index, meant, now);
        let step = policy.decide(&mut subject, verb, now);
        self.check_in(index, subject, &policy, now);
        if !step.changed && index < self.table.slots() {
            mark_if_denied(self.table.get_mut(index), &step.decision);
        }
        step.decision
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
        let (meant, policy) = self.policies.meant(key.policy, key.beside);
        let policy = Arc::clone(policy);
        if matches!(verb, Verb::Release(_) | Verb::Heartbeat(_))
            && self.overflow.iter().any(|(version, _)| *version == meant)
        {
            // The lease may have been taken when there was no room for the key.
            return self.decide_overflow(meant, &policy, verb, now);
        }
        let mut subject = policy.fresh();
        let step = policy.decide(&mut subject, verb, now);
        if !step.changed || policy.rests_at(&subject, now) <= now {
            return step.decision;
        }
        if self.make_room(key.key.len(), &subject, now) {
            self.insert(key, subject, now);
            return step.decision;
        }
        if let Verb::Block { .. } = verb {
            // Rare and deliberate, and nobody else may suffer for it: this one goes over the budget.
            if self.table.is_full() {
                self.resize(self.table.grown());
            }
            self.insert(key, subject, now);
            return step.decision;
        }
        self.decide_overflow(meant, &policy, verb, now)
    }

    fn decide_overflow(&mut self, version: VersionId, policy: &Policy, verb: &Verb, now: Micros) -> Decision {
        let mut decision = policy.decide(self.overflow_of(version, policy), verb, now).decision;
        decision.source = Source::Overflow;
        self.stats.overflowed += 1;
        decision
    }

    fn overflow_of(&mut self, version: VersionId, policy: &Policy) -> &mut Subject {
        let known = self.overflow.iter().position(|(known, _)| *known == version);
        let place = known.unwrap_or_else(|| {
            self.overflow.push((version, policy.fresh()));
            self.overflow.len() - 1
        });
        &mut self.overflow[place].1
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

fn hash_entry(entry: &Entry, policies: &Policies, hasher: &KeyHasher) -> u64 {
    hasher.hash(policies.id(entry.version()), entry.key())
}

#[inline]
fn place_of(hash: u64) -> Place {
    Place((hash >> 32) as u32)
}

/// One slot is looked at every so many decisions, so that a shard without newcomers gets clean as well.
const LOOK_EVERY: u32 = 32;
