//! A few keys on one clock, remembered twice: as the core has them, and as the server does.

use std::{collections::HashMap, sync::Arc};

use redis::Value;
use tollgate_core::{
    Carry, LeaseId, Micros, Period, Policy, Release, Rule, Step, Subject, Take, Verb,
    algorithm::{Lease, Limiting},
    carry_over, take_together,
};
use tollgate_testkit::random::{Kind, Random};

use crate::{
    ledger::{Bill, Charge, Owed, book},
    link::Script,
    reply::{self, Reply},
    request::{self, Tagged},
    script::{self, Piece, Shape},
    state::{self, Tag},
};

/// Keys live until long after the test, by so many milliseconds; what they live beyond that is what was asked for.
pub(super) const FAR: u64 = 10_000_000_000_000;

pub(super) struct Lane {
    seed: u64,
    random: Random,
    now: Micros,
    /// Whether the clock ever steps back.
    steps_back: bool,
    keys: Vec<Key>,
    spans: Vec<u64>,
    /// Takes that may be given back: key, cost, moment.
    taken: Vec<(usize, u64, Micros)>,
    /// Scripts by the keys they are for.
    takes: HashMap<Vec<usize>, Arc<Script>>,
    amends: HashMap<usize, Arc<Script>>,
    charges: HashMap<usize, Arc<Script>>,
    /// The last operation id; ids are of the whole lane.
    sequence: u64,
}

struct Key {
    name: String,
    policy: Policy,
    tag: Tag,
    /// The value and time to live the server should have.
    stored: Option<(Vec<u8>, u64)>,
    /// The last operation id that was carried out.
    charged: u64,
}

pub(super) struct Question {
    pub(super) script: Arc<Script>,
    pub(super) keys: Vec<String>,
    pub(super) numbers: Vec<u8>,
    pub(super) now: u64,
    asked: Vec<usize>,
    /// How many times the cost each of them is charged.
    times: Vec<u64>,
    verb: Verb,
    /// Instead of the verb: grants made without the store.
    charge: Option<Charge>,
}

impl Lane {
    pub(super) fn new(seed: u64, kind: Kind, number: u64) -> Self {
        let mut random = Random::new(seed);
        let now = random.beginning();
        let mut spans = vec![1, 1_000, 1_000_000];
        let mut keys = Vec::new();
        for key in 0..random.between(1, 3) {
            let policy = any_policy(&mut random, kind);
            spans.extend(policy.rules().iter().filter_map(|rule| match rule.rule().quota().period() {
                Period::Span(span) => Some(span.0),
                Period::Month => None,
            }));
            let tag = Tag::new(random.bits());
            keys.push(Key { name: format!("lane {number} key {key}"), policy, tag, stored: None, charged: 0 });
        }
        let steps_back = random.one_in(2);
        let (takes, amends, charges) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { seed, random, now, steps_back, keys, spans, taken: Vec::new(), takes, amends, charges, sequence: 0 }
    }

    pub(super) fn next_question(&mut self) -> Question {
        self.move_clock();
        let first = self.any_key();
        if self.random.one_in(10) {
            return self.next_charge(first);
        }
        let (asked, verb) = if self.keys.len() > 1 && self.random.one_in(6) {
            let second = (first + 1) % self.keys.len();
            let cost = self.any_cost(first);
            (vec![first, second], Verb::Take(self.any_take(cost)))
        } else {
            (vec![first], self.any_verb(first))
        };
        let shape: Shape = asked.iter().map(|&key| Piece::of(&self.keys[key].policy)).collect();
        let times: Vec<u64> = asked.iter().map(|_| self.any_times()).collect();
        let subjects: Vec<Tagged<'_>> =
            asked.iter().zip(&times).map(|(&key, &times)| self.keys[key].tagged().times(times)).collect();
        let (script, numbers) = match &verb {
            Verb::Take(take) => {
                let script = self.takes.entry(asked.clone()).or_insert_with(|| Arc::new(script::take(&shape)));
                (Arc::clone(script), request::take(&shape, &subjects, take))
            }
            other => {
                let script = self.amends.entry(first).or_insert_with(|| Arc::new(script::amend(&shape)));
                (Arc::clone(script), request::amend(&shape, subjects[0], other))
            }
        };
        let keys = asked.iter().map(|&key| self.keys[key].name.clone()).collect();
        Question { script, keys, numbers, now: self.now.0, asked, times, verb, charge: None }
    }

    /// A new one, or one whose reply was lost.
    fn next_charge(&mut self, key: usize) -> Question {
        if !self.random.one_in(3) {
            self.sequence += 1;
        }
        let charge = Charge { sequence: self.sequence.max(1), bill: self.any_bill(key) };
        let shape: Shape = vec![Piece::of(&self.keys[key].policy)];
        let script = self.charges.entry(key).or_insert_with(|| Arc::new(script::charge(&shape)));
        let (script, subject) = (Arc::clone(script), &self.keys[key]);
        let numbers = request::charge(subject.tagged(), &charge);
        let id_name = format!("{}#charged", subject.name);
        let keys = vec![subject.name.clone(), id_name];
        Question {
            script,
            keys,
            numbers,
            now: self.now.0,
            asked: vec![key],
            times: vec![1],
            verb: Verb::Peek,
            charge: Some(charge),
        }
    }

    fn any_bill(&mut self, key: usize) -> Bill {
        let rules = self.keys[key].policy.rules().len();
        let due = if self.random.one_in(3) { self.now + self.random.pause(&self.spans) } else { Micros::ZERO };
        let due = due.min(self.now + self.keys[key].policy.horizon().min(Micros::DAY));
        let mut owed = Vec::new();
        for rule in 0..rules {
            let leases = match self.keys[key].policy.rules()[rule].limiting() {
                Limiting::Leases(_) => (0..self.random.below(3)).map(|_| self.any_lease()).collect(),
                _ => Vec::new(),
            };
            let permits = if self.random.one_in(3) { 0 } else { self.any_cost(key) };
            owed.push(Owed { permits, leases });
        }
        let released = (0..self.random.below(3)).map(|_| LeaseId(self.random.between(1, 30))).collect();
        Bill { owed, due, released }
    }

    fn any_lease(&mut self) -> Lease {
        let id = LeaseId(self.random.between(1, 30));
        Lease { id, permits: self.random.between(1, 3), until: self.now + self.random.pause(&self.spans) }
    }

    pub(super) fn compare(&mut self, question: Question, reply: Value, stored: Vec<(Value, Value)>) {
        let Question { asked, times, verb, script, charge, .. } = question;
        let mut subjects: Vec<Subject> = asked.iter().map(|&key| self.keys[key].subject()).collect();
        let before = subjects.clone();
        let is_charged = charge.as_ref().is_some_and(|charge| self.keys[asked[0]].charged < charge.sequence);
        let step = match (&charge, &verb) {
            (Some(charge), _) => {
                let policy = &self.keys[asked[0]].policy;
                if is_charged {
                    subjects[0] = carry_over(policy, policy, subjects[0].clone(), Carry::Keep, self.now);
                    book(policy, &mut subjects[0], &charge.bill, self.now);
                }
                let step = policy.decide(&mut subjects[0], &Verb::Peek, self.now);
                Step { changed: step.changed || is_charged, ..step }
            }
            (None, Verb::Take(take)) => {
                let policies = asked.iter().map(|&key| &self.keys[key].policy);
                let parties = policies.zip(&mut subjects).zip(&times);
                let mut parties: Vec<_> =
                    parties.map(|((policy, subject), &times)| policy.party(subject).times(times)).collect();
                take_together(&mut parties, take, self.now)
            }
            (None, other) => self.keys[asked[0]].policy.decide(&mut subjects[0], other, self.now),
        };
        let tagged: Vec<Tagged<'_>> =
            asked.iter().zip(&times).map(|(&key, &times)| self.keys[key].tagged().times(times)).collect();
        let shown = format!("{reply:?}");
        let told = match &verb {
            Verb::Take(take) => reply::to_take(&tagged, take, &reply),
            other => reply::to_amend(tagged[0].policy, other, &reply),
        };
        let scene = || {
            let policies: Vec<_> = tagged.iter().map(|tagged| tagged.policy.rules()).collect();
            format!(
                "lane {} at {}: {verb:?} {charge:?}\n  before {before:?}\n  rules {policies:?}\n  reply {shown}",
                self.seed, self.now.0
            )
        };
        let Reply::Decided(decision) = told else {
            panic!("{}\n  told {told:?}\n{}", scene(), script.text());
        };
        assert_eq!(decision, step.decision, "{}\n{}", scene(), script.text());
        let mut expected = Vec::new();
        for ((&key, subject), &times) in asked.iter().zip(&subjects).zip(&times) {
            let key = &self.keys[key];
            // A key that had nothing to move along is not written when another of a refused request had.
            let looked = times == 0 || matches!(verb, Verb::Take(Take { cost: 0, .. }));
            let charged = !looked && step.decision.is_allowed();
            let changed = step.changed && (asked.len() == 1 || charged || *subject != key.subject());
            expected.push(if changed {
                state::encode(&key.policy, key.tag, subject, self.now)
            } else {
                key.stored.clone()
            });
        }
        let mut stored = stored;
        if let Some(charge) = &charge {
            let noted = stored.pop().and_then(as_stored).map(|(value, _)| String::from_utf8(value).unwrap());
            let last = charge.sequence.max(self.keys[asked[0]].charged);
            assert_eq!(noted, Some(last.to_string()), "{}", scene());
        }
        let found: Vec<_> = stored.into_iter().map(as_stored).collect();
        let found = asked.iter().zip(found).map(|(&key, found)| self.keys[key].without_room(found)).collect::<Vec<_>>();
        let expected = asked.iter().zip(expected).map(|(&key, it)| self.keys[key].without_room(it)).collect::<Vec<_>>();
        assert_eq!(found, expected, "{}\n  core {subjects:?}\n{}", scene(), script.text());
        for (&key, stored) in asked.iter().zip(expected) {
            self.keys[key].stored = stored;
        }
        if let Some(charge) = charge {
            self.keys[asked[0]].charged = self.keys[asked[0]].charged.max(charge.sequence);
        }
        self.remember(asked[0], times[0], &verb, &decision);
    }

    fn move_clock(&mut self) {
        if self.steps_back && self.random.one_in(20) {
            let back = match self.random.below(5) {
                0 => self.random.below(50),
                1 => self.random.below(2_000_000),
                2 => Micros::HOUR.0,
                3 => 400 * Micros::DAY.0,
                _ => self.random.pick(&self.spans) / 8,
            };
            self.now = self.now - Micros(back);
        } else {
            self.now = self.now + self.random.pause(&self.spans);
        }
    }

    fn any_key(&mut self) -> usize {
        usize::try_from(self.random.below(self.keys.len() as u64)).unwrap()
    }

    /// Mostly once; or a part that differs from key to key.
    fn any_times(&mut self) -> u64 {
        if self.random.one_in(3) { self.random.below(4) } else { 1 }
    }

    fn any_cost(&mut self, key: usize) -> u64 {
        let key = &self.keys[key];
        let mut subject = key.subject();
        let told = key.policy.decide(&mut subject, &Verb::Peek, self.now).decision;
        let limits: Vec<u64> = told.rules.iter().map(|rule| rule.limit).collect();
        let limit = if limits.is_empty() { 1 } else { self.random.pick(&limits) };
        self.random.cost(limit, told.remaining())
    }

    fn any_take(&mut self, cost: u64) -> Take {
        let lease = LeaseId(self.random.between(1, 30));
        self.random.take(cost, &self.spans).held_as(lease)
    }

    fn any_verb(&mut self, key: usize) -> Verb {
        let cost = self.any_cost(key);
        let lease = LeaseId(self.random.between(1, 30));
        let known = if self.taken.is_empty() { None } else { Some(self.random.pick(&self.taken)) };
        match self.random.below(40) {
            0 => Verb::Peek,
            1 => Verb::Refund { cost, at: None },
            2 => Verb::Refund { cost, at: known.map(|(_, _, at)| at) },
            3..=5 => match known {
                Some((_, cost, at)) => {
                    Verb::Undo { cost, at, lease: if self.random.one_in(2) { Some(lease) } else { None } }
                }
                None => Verb::Peek,
            },
            6 => Verb::Settle { reserved: cost, actual: self.random.below(2 * cost + 2), at: None },
            7 => Verb::Settle { reserved: cost, actual: cost / 2, at: known.map(|(_, _, at)| at) },
            8 => Verb::Penalize { cost },
            9 if self.random.one_in(8) => Verb::Penalize { cost: self.random.pick(&[u64::MAX, 1 << 52, 1 << 45]) },
            9 => Verb::Block { span: Micros(self.random.pick(&self.spans)) },
            10 if self.random.one_in(3) => Verb::Block { span: self.random.pick(&[Micros::ZERO, Micros(u64::MAX)]) },
            10 => Verb::Block { span: Micros::ZERO },
            11 | 12 => Verb::Release(Release::Lease(lease)),
            13 => Verb::Release(Release::Oldest(cost)),
            14 | 15 => Verb::Heartbeat(lease),
            16 if self.random.one_in(6) => Verb::Reset,
            _ => Verb::Take(self.any_take(cost)),
        }
    }

    fn remember(&mut self, key: usize, times: u64, verb: &Verb, told: &tollgate_core::Decision) {
        let wait = told.retry_after().unwrap_or_default().max(told.wait()).0;
        if wait > 0 && wait < 100 * Micros::DAY.0 {
            self.spans.truncate(8);
            let place = self.spans.len().min(3);
            self.spans.insert(place, wait);
        }
        if let (Verb::Take(take), true) = (verb, told.is_allowed()) {
            self.taken.push((key, take.times(times).cost, self.now + told.wait()));
            if self.taken.len() > 8 {
                self.taken.remove(0);
            }
        }
    }
}

impl Key {
    fn tagged(&self) -> Tagged<'_> {
        Tagged { policy: &self.policy, tag: self.tag, times: 1 }
    }

    /// A log that is alone has room behind its entries, how much depends on when it was last written as a whole. Taken
    /// off after a look: no more than an eighth, and nothing in it.
    fn without_room(&self, stored: Option<(Vec<u8>, u64)>) -> Option<(Vec<u8>, u64)> {
        let (mut value, lives) = stored?;
        if let [rule] = self.policy.rules()
            && let Limiting::Log(_) = rule.limiting()
        {
            let head = value.len() - list_length(&value);
            let entries = u32::from_be_bytes(value[head + 12..head + 16].try_into().unwrap()) as usize;
            let room = value.split_off(head + 49 + 12 * entries);
            assert!(room.len() / 12 <= entries / 8 && room.iter().all(|byte| *byte == 0), "{room:?}");
            let length = u32::try_from(49 + 12 * entries).unwrap();
            value[head - 4..head].copy_from_slice(&length.to_be_bytes());
        }
        Some((value, lives))
    }

    /// What the stored bytes say, read back.
    fn subject(&self) -> Subject {
        match &self.stored {
            Some((value, _)) => state::decode(&self.policy, self.tag, value).expect("what was written can be read").1,
            None => self.policy.fresh(),
        }
    }
}

fn as_stored((value, expires): (Value, Value)) -> Option<(Vec<u8>, u64)> {
    match (value, expires) {
        (Value::BulkString(value), Value::Int(expires)) => {
            let lives = u64::try_from(expires).ok().and_then(|at| at.checked_sub(FAR));
            Some((value, lives.expect("no key without a time to live")))
        }
        _ => None,
    }
}

/// How many bytes the only list of a value takes, going by where it begins.
fn list_length(value: &[u8]) -> usize {
    let begins = if value[0] == b'U' { 13 + 21 } else { 13 };
    value.len() - begins - 4
}

/// The kind under test alone, or among others, some of which may only watch or count refused requests.
fn any_policy(random: &mut Random, kind: Kind) -> Policy {
    let mut rules = vec![random.rule("rule 0", kind)];
    if random.one_in(2) {
        let more = if random.one_in(12) { random.between(7, 12) } else { random.between(1, 2) };
        for index in 1..=more {
            let kind = random.pick(&Kind::ALL);
            rules.push(random.rule(&format!("rule {index}"), kind));
        }
    }
    let rules: Vec<Rule> = rules
        .into_iter()
        .map(|rule| {
            let shadow = random.one_in(8);
            random.counting(rule.shadow(shadow))
        })
        .collect();
    Policy::new("policy", rules).unwrap()
}
