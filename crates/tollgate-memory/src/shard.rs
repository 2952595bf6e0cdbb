//! One part of the keys, behind one lock: find the key, let the policy decide, keep what came out.
//!
//! A key whose state is one meter, with nobody waiting and no block, lives in its entry; any other in a [`Subject`]
//! beside the table. Which of the two it is may change with every decision.
//!
//! Room is made in small steps. Every new key looks at a few old ones and lets go of those that are as good as new,
//! which loses nothing. If the budget is spent, the one nearest to new among a handful goes early, but never one
//! that is being limited: whoever could push those out could lift his own limit. If only such are found, the
//! newcomer is counted together with all others in that plight.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use foldhash::quality::FixedState;
use tollgate_core::{
    Block, Carry, Decision, Metered, Micros, Party, Policy, RuleDecision, Source, Subject, Take, Verb, Verdict,
    algorithm::{Algorithm, Meter, State},
    take_together,
};

use crate::{
    entry::{Entry, INLINE, KeyWords, VersionId},
    hot::{Hot, HotKey},
    policies::{Policies, PolicyId},
    slab::Slab,
    stats::Stats,
    table::{Place, Table},
};

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
    hasher: FixedState,
    hot: Arc<Hot>,
    /// The last key that each pair of hot slots was missed by.
    missed: Box<[u32]>,
    pub(crate) stats: Stats,
}

/// A key on its way through the store: hashed once.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) policy: PolicyId,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) words: KeyWords,
}

impl<'a> Hashed<'a> {
    #[inline]
    pub(crate) fn new(hasher: &FixedState, policy: PolicyId, key: &'a [u8]) -> Self {
        let words = KeyWords::of(key, || hasher.hash_one(key));
        Self { policy, key, hash: hash_of(hasher, policy, words), words }
    }

    #[inline]
    fn place(&self) -> Place {
        place_of(self.hash)
    }
}

/// Deciding
impl Shard {
    pub(crate) fn new(budget: usize, hasher: FixedState, hot: Arc<Hot>) -> Self {
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
            missed: vec![0; hot.pairs()].into(),
            hot,
            stats: Stats::default(),
        }
    }

    /// Adds a version of a policy. Hot keys are counted under the newest version only, so they come home first.
    pub(crate) fn install(&mut self, policy: &Arc<Policy>, carry: Carry) -> Option<PolicyId> {
        self.take_all_home();
        self.policies.install(policy, carry)
    }

    /// The common case: a take under one meter, for a key that is known and that nobody waits for. `None` if it is
    /// another case; then nothing has happened yet.
    #[inline(always)]
    pub(crate) fn take_known(&mut self, key: &Hashed<'_>, take: &Take, now: Micros) -> Option<RuleDecision> {
        let index = if key.words.is_long() {
            self.find(key)?
        } else {
            let (newest, _) = self.policies.newest(key.policy);
            self.table.find(key.place(), |entry| entry.is_short(key.words, newest))?
        };
        let (newest, policy) = self.policies.newest(key.policy);
        let entry = self.table.get_mut(index);
        if entry.is_hot() {
            return None; // it was missed by a hair; take it home first
        }
        let mut meter = entry.meter().filter(|_| entry.version() == newest)?;
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
            self.consider_hot(index, key, newest, meter);
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
        let (newest, _) = self.policies.newest(key.policy);
        let found = self.table.find(key.place(), |entry| {
            entry.may_be(words)
                && (entry.version() == newest || self.policies.id(entry.version()) == key.policy)
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
        let (newest, policy) = self.policies.newest(key.policy);
        let policy = Arc::clone(policy);
        if self.table.get(index).version() == newest
            && let Some(meter) = self.table.get(index).meter()
        {
            return self.decide_metered(index, meter, &policy, verb, now);
        }
        let mut subject = self.check_out(index, newest, now);
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
            let mut party = Party { policy, promised: &mut promised, block: &mut block, states: &mut states };
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
        let (newest, policy) = self.policies.newest(key.policy);
        let policy = Arc::clone(policy);
        if matches!(verb, Verb::Release(_) | Verb::Heartbeat(_))
            && self.overflow.iter().any(|(version, _)| *version == newest)
        {
            // The lease may have been taken when there was no room for the key.
            return self.decide_overflow(key.policy, &policy, verb, now);
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
        self.decide_overflow(key.policy, &policy, verb, now)
    }

    fn decide_overflow(&mut self, id: PolicyId, policy: &Policy, verb: &Verb, now: Micros) -> Decision {
        let (version, _) = self.policies.newest(id);
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

/// Hot keys
impl Shard {
    /// Moves a key into a hot slot if it is the one that its pair of slots was last missed by.
    #[inline]
    fn consider_hot(&mut self, index: usize, key: &Hashed<'_>, version: VersionId, meter: Meter) {
        let pair = self.hot.pair_of(key.hash);
        let Some(missed) = self.missed.get_mut(pair) else { return };
        let Place(who) = key.place();
        if std::mem::replace(missed, who) != who {
            return;
        }
        self.table.get_mut(index).set_hot(true);
        if let Some(pushed_out) = self.hot.move_in(key.hash, HotKey { words: key.words, version, meter }) {
            self.put_home(pushed_out);
        }
    }

    /// Takes a key's state out of its hot slot and back into the table.
    #[cold]
    fn take_home(&mut self, index: usize) {
        let entry = *self.table.get(index);
        let hash = hash_entry(&entry, &self.policies, &self.hasher);
        if let Some(meter) = self.hot.move_out(hash, entry.key(), entry.version()) {
            self.set_home(index, meter);
        }
    }

    fn put_home(&mut self, key: HotKey) {
        let place = place_of(hash_of(&self.hasher, self.policies.id(key.version), key.words));
        let found = self.table.find(place, |entry| entry.is_short(key.words, key.version));
        if let Some(index) = found {
            self.set_home(index, key.meter);
        }
    }

    fn set_home(&mut self, index: usize, meter: Meter) {
        let entry = self.table.get_mut(index);
        entry.set_meter(meter);
        entry.set_hot(false);
        // It may have been refused something while it was away; whoever is that busy is not to be pushed out.
        entry.mark_denied();
    }

    /// Takes every hot key home, so that a new version of a policy finds them.
    pub(crate) fn take_all_home(&mut self) {
        let hot = Arc::clone(&self.hot);
        hot.move_all_out().for_each(|key| self.put_home(key));
    }
}

/// Keys that are decided about together: taken out, decided about elsewhere, put back
impl Shard {
    /// The key's state under the newest version of its policy, out of the store until it is put back.
    pub(crate) fn take_out(&mut self, key: &Hashed<'_>, now: Micros) -> Out {
        let (newest, policy) = self.policies.newest(key.policy);
        let policy = Arc::clone(policy);
        if let Some(index) = self.find(key) {
            return Out { subject: self.check_out(index, newest, now), home: Home::Known };
        }
        let subject = policy.fresh();
        if self.make_room(key.key.len(), &subject, now) {
            Out { subject, home: Home::New }
        } else {
            Out { subject: self.overflow_of(newest, &policy).clone(), home: Home::Overflow }
        }
    }

    /// Puts it back where it belongs; `charged` is what the key was charged meanwhile, unless it was refused.
    pub(crate) fn put_back(&mut self, key: &Hashed<'_>, out: Out, charged: Option<u64>, now: Micros) {
        let (newest, policy) = self.policies.newest(key.policy);
        let policy = Arc::clone(policy);
        match (out.home, self.find(key)) {
            (Home::Known, Some(index)) => {
                if charged.is_none() {
                    self.table.get_mut(index).mark_denied();
                }
                self.check_in(index, out.subject, &policy, now);
            }
            (Home::Overflow, _) => self.charge_overflow(newest, &policy, charged, now),
            _ if policy.rests_at(&out.subject, now) <= now => {}
            _ if self.make_room(key.key.len(), &out.subject, now) => {
                self.insert(key, out.subject, now);
            }
            _ => self.charge_overflow(newest, &policy, charged, now),
        }
    }

    /// Others share that count, so it is added to, not replaced.
    fn charge_overflow(&mut self, version: VersionId, policy: &Policy, charged: Option<u64>, now: Micros) {
        let cost = charged.unwrap_or(0);
        let _ = policy.decide(self.overflow_of(version, policy), &Verb::Penalize { cost }, now);
    }
}

/// A key's state while it is out of the store.
pub(crate) struct Out {
    pub(crate) subject: Subject,
    pub(crate) home: Home,
}

/// Where a key's state goes back to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Home {
    /// It was there, and its place is kept.
    Known,
    /// It was not there, and there was room for it.
    New,
    /// There was no room.
    Overflow,
}

/// Keeping
impl Shard {
    fn insert(&mut self, key: &Hashed<'_>, subject: Subject, now: Micros) {
        let (version, _) = self.policies.newest(key.policy);
        let long_key = key.words.is_long().then(|| {
            self.heap += key.key.len();
            self.long_keys.insert(key.key.into())
        });
        let index = self.table.insert(key.place(), Entry::new(key.words, long_key, version));
        self.keep(index, subject, now);
    }

    /// Takes a key's state out of wherever it is, brought to the newest version.
    fn check_out(&mut self, index: usize, newest: VersionId, now: Micros) -> Subject {
        let entry = *self.table.get(index);
        let subject = match (entry.meter(), entry.beside()) {
            (Some(meter), _) => Subject { states: vec![State::Meter(meter)], ..Subject::default() },
            (None, Some(place)) => {
                let subject = self.subjects.get_mut(place).map(std::mem::take).unwrap_or_default();
                self.heap -= heap_bytes(&subject);
                subject
            }
            (None, None) => Subject::default(),
        };
        if entry.version() == newest {
            return subject;
        }
        self.table.get_mut(index).set_version(newest);
        self.policies.carry_to_newest(entry.version(), subject, now)
    }

    /// Puts a key's state back, or lets the key go if it is as good as new.
    fn check_in(&mut self, index: usize, subject: Subject, policy: &Policy, now: Micros) {
        if policy.rests_at(&subject, now) <= now {
            self.remove(index);
            return;
        }
        self.keep(index, subject, now);
        // A list may have grown: others make room for it if they can.
        self.evict_until(|shard| shard.bytes() <= shard.budget, now);
    }

    fn keep(&mut self, index: usize, subject: Subject, now: Micros) {
        match fits_entry(&subject, now) {
            Some(meter) => {
                let place = self.table.get(index).beside();
                place.and_then(|place| self.subjects.remove(place));
                self.table.get_mut(index).set_meter(meter);
            }
            None => self.put_beside(index, subject),
        }
    }

    fn put_beside(&mut self, index: usize, subject: Subject) {
        self.heap += heap_bytes(&subject);
        match self.table.get(index).beside() {
            Some(place) => {
                if let Some(stored) = self.subjects.get_mut(place) {
                    *stored = subject;
                }
            }
            None => {
                let place = self.subjects.insert(subject);
                self.table.get_mut(index).set_beside(place);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let Self { table, policies, hasher, .. } = self;
        let removed = table.remove(index, |entry| place_of(hash_entry(entry, policies, hasher)));
        if let Some(subject) = removed.beside().and_then(|place| self.subjects.remove(place)) {
            self.heap -= heap_bytes(&subject);
        }
        if let Some(key) = removed.long_key().and_then(|place| self.long_keys.remove(place)) {
            self.heap -= key.len();
        }
    }

    fn resize(&mut self, slots: usize) {
        let Self { table, policies, hasher, .. } = self;
        table.resize(slots, |entry| place_of(hash_entry(entry, policies, hasher)));
        self.hand = 0;
    }
}

/// Room
impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.subjects.bytes() + self.long_keys.bytes() + self.heap
    }

    /// Makes room for one more key; false if all that could go are being limited.
    fn make_room(&mut self, key_bytes: usize, subject: &Subject, now: Micros) -> bool {
        self.look_around(LOOK_AT, now);
        let beside = fits_entry(subject, now).is_none();
        // What is wanted shrinks with every key that goes and leaves its place beside the table.
        let wanted = |shard: &Self| {
            let long_key = if key_bytes > INLINE { key_bytes + shard.long_keys.growth_bytes() } else { 0 };
            long_key + if beside { heap_bytes(subject) + shard.subjects.growth_bytes() } else { 0 }
        };
        if self.table.is_full() {
            let growth = (self.table.grown() - self.table.slots()) * size_of::<Entry>();
            if self.bytes() + wanted(self) + growth <= self.budget {
                self.resize(self.table.grown());
            }
        }
        let fits = |shard: &Self| !shard.table.is_full() && shard.bytes() + wanted(shard) <= shard.budget;
        self.evict_until(fits, now)
    }

    /// Makes room to remember that somebody waits.
    fn make_room_beside(&mut self, subject: &Subject, now: Micros) -> bool {
        self.evict_until(|shard| shard.has_room_beside(subject), now)
    }

    fn has_room_beside(&self, subject: &Subject) -> bool {
        self.bytes() + heap_bytes(subject) + self.subjects.growth_bytes() <= self.budget
    }

    /// Lets keys go until it is enough, but only a few: one decision must not pay for all.
    fn evict_until(&mut self, enough: impl Fn(&Self) -> bool, now: Micros) -> bool {
        for _ in 0..TRIES {
            if enough(self) {
                return true;
            }
            if !self.evict(now) {
                return false;
            }
        }
        enough(self)
    }

    /// Lets one key go: the first of a handful that is as good as new, else the one nearest to it.
    fn evict(&mut self, now: Micros) -> bool {
        let mut nearest: Option<(Micros, usize)> = None;
        let mut seen = 0;
        for _ in 0..self.table.slots() {
            let index = self.next_hand();
            let Some(standing) = self.standing(index, now) else { continue };
            if standing.rests_at <= now {
                self.remove(index);
                self.stats.expired += 1;
                return true;
            }
            if !standing.limited && nearest.is_none_or(|(rests_at, _)| standing.rests_at < rests_at) {
                nearest = Some((standing.rests_at, index));
            }
            seen += 1;
            if seen == HANDFUL {
                break;
            }
        }
        let Some((_, index)) = nearest else { return false };
        self.remove(index);
        self.stats.evicted += 1;
        true
    }

    /// Looks at so many slots and lets go of what is as good as new; gives memory back when much has gone.
    pub(crate) fn look_around(&mut self, slots: usize, now: Micros) {
        for _ in 0..slots.min(2 * self.table.slots()) {
            let index = self.next_hand();
            if self.standing(index, now).is_some_and(|standing| standing.rests_at <= now) {
                self.remove(index);
                self.stats.expired += 1;
                self.hand = index; // the one that moved up here has not been looked at
            }
        }
        if self.table.slots() > KEEP_SLOTS && self.table.len() * 4 < self.table.slots() {
            self.resize((self.table.len() * 3 / 2).max(KEEP_SLOTS));
            self.compact();
        }
    }

    /// Closes the gaps beside the table, when most keys have gone.
    fn compact(&mut self) {
        let (mut subjects, mut long_keys) = (HashMap::new(), HashMap::new());
        self.subjects.compact(|old, new| {
            subjects.insert(old, new);
        });
        self.long_keys.compact(|old, new| {
            long_keys.insert(old, new);
        });
        for index in 0..self.table.slots() {
            let entry = self.table.get_mut(index);
            if let Some(place) = entry.beside().and_then(|old| subjects.get(&old)) {
                entry.set_beside(*place);
            }
            if let Some(place) = entry.long_key().and_then(|old| long_keys.get(&old)) {
                entry.set_long_key(*place);
            }
        }
    }

    fn next_hand(&mut self) -> usize {
        let index = if self.hand < self.table.slots() { self.hand } else { 0 };
        self.hand = index + 1;
        index
    }

    fn standing(&self, index: usize, now: Micros) -> Option<Standing> {
        let entry = self.table.get(index);
        if entry.is_empty() || entry.is_hot() {
            return None;
        }
        let policy = self.policies.policy(entry.version());
        let (rests_at, exhausted) = match (entry.meter(), entry.beside().and_then(|place| self.subjects.get(place))) {
            (Some(meter), _) => {
                let look = policy.rules().first().map(|rule| rule.limiting().look(&State::Meter(meter), now));
                look.map_or((now, false), |look| (look.rests_at, look.remaining == 0))
            }
            (None, Some(subject)) => {
                let states = policy.rules().iter().zip(&subject.states);
                let mut looks = states.map(|(rule, state)| rule.limiting().look(state, now));
                let held_back = subject.block.until.max(subject.promised) > now;
                (policy.rests_at(subject, now), held_back || looks.any(|look| look.remaining == 0))
            }
            (None, None) => (now, false),
        };
        Some(Standing { rests_at, limited: exhausted || entry.was_denied() })
    }
}

/// How much a key would lose by being forgotten.
struct Standing {
    rests_at: Micros,
    /// It is being held back, or was refused something.
    limited: bool,
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

/// Long keys are hashed by their second hash, so that moving an entry never needs to look its key up.
#[inline]
fn hash_of(hasher: &FixedState, PolicyId(policy): PolicyId, words: KeyWords) -> u64 {
    let [first, last] = words.both();
    let which = u64::from(policy) << 8 | words.length();
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(first ^ which.rotate_left(24));
    hasher.write_u64(if words.is_long() { 0 } else { last });
    hasher.finish()
}

fn hash_entry(entry: &Entry, policies: &Policies, hasher: &FixedState) -> u64 {
    hash_of(hasher, policies.id(entry.version()), entry.key())
}

#[inline]
fn place_of(hash: u64) -> Place {
    Place((hash >> 32) as u32)
}

/// Slots looked at for every new key; more than one, or the table would grow faster than it is looked over.
const LOOK_AT: usize = 3;
/// One slot is looked at every so many decisions, so that a shard without newcomers gets clean as well.
const LOOK_EVERY: u32 = 32;
/// Keys compared when one has to go early.
const HANDFUL: usize = 16;
/// Keys that may have to go to make room for one, whose lists may be longer than theirs.
const TRIES: usize = 8;
/// A table this small is not worth shrinking.
const KEEP_SLOTS: usize = 256;
