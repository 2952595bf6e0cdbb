//! The same answers as the core gives to a plain map: random verbs on random policies, step by step.
//!
//! The store packs meters into entries, takes short cuts, moves keys between table and heap and forgets those that
//! are as good as new. None of that may show. So a walk asks the store and a map of subjects the same questions and
//! compares whole decisions.
//!
//! One freedom remains, where the clock steps back: whether a key had been forgotten by then cannot be seen from
//! outside. A key that was as good as new may come back from the future as used, as the map has it, or may be new;
//! the same goes for a block or a promise that had ended. So the map keeps every *possible* past of a key, each answer
//! rules out those it does not fit, and at least one has to be left.
//!
//! A failure names its seed; `TOLLGATE_WALK_SEED` replays that one episode, `TOLLGATE_WALK_EPISODES` asks for more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]
#![allow(clippy::print_stderr, reason = "a failure tells its seed")]

mod support;

use std::{collections::HashMap, env, time::Duration};

use support::Bench;
use tollgate_core::{
    Ask, Block, Decision, LeaseId, Micros, Policy, Quota, Release, Rule, Subject, Take, Verb, Verdict,
    algorithm::{Algorithm, State},
    take_together,
};
use tollgate_memory::{InstalledPolicy, MemoryConfig};
use tollgate_testkit::random::{Kind, Random};

/// Both sides of every length at which keys are read in another way.
const LENGTHS: [usize; 16] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 33, 40];
const EPISODES: u64 = 300;
const STEPS: u64 = 2_000;

/// Whether the clock of an episode ever steps back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Time {
    Forward,
    BothWays,
}

struct Walk {
    random: Random,
    bench: Bench,
    time: Time,
    now: Micros,
    policies: Vec<(Policy, InstalledPolicy)>,
    keys: Vec<String>,
    /// What may be remembered, by policy and key.
    pasts: HashMap<(usize, String), Vec<Subject>>,
    /// Spans that were told, or that matter to the rules.
    spans: Vec<u64>,
    /// Reservations and takes that may be given back: policy, key, cost, moment.
    taken: Vec<(usize, String, u64, Micros)>,
}

/// What the store said.
#[derive(Debug)]
enum Told {
    InFull(Decision),
    Verdict(Verdict),
}

impl Told {
    fn agrees_with(&self, decision: &Decision) -> bool {
        match self {
            Self::InFull(told) => told == decision,
            Self::Verdict(verdict) => *verdict == decision.verdict,
        }
    }
}

impl Walk {
    fn new(seed: u64, time: Time) -> Self {
        let mut random = Random::new(seed);
        let shards = 1 << random.below(5);
        let bench = Bench::with(MemoryConfig::default().shards(shards));
        let now = random.beginning();
        let (mut policies, mut spans) = (Vec::new(), vec![1, 1_000, 1_000_000]);
        for index in 0..random.between(1, 3) {
            let policy = any_policy(&mut random, &format!("policy {index}"));
            spans.extend(policy.rules().iter().filter_map(|rule| match rule.rule().quota().period() {
                tollgate_core::Period::Span(span) => Some(span.0),
                tollgate_core::Period::Month => None,
            }));
            let installed = bench.install(policy.name(), policy.rules().iter().map(|ready| ready.rule().clone()));
            policies.push((policy, installed));
        }
        let keys = (0..random.between(1, 12)).map(|_| any_key(&mut random)).collect();
        let walk = Self { random, bench, time, now, policies, keys, pasts: HashMap::new(), spans, taken: Vec::new() };
        walk.bench.clock.set(now);
        walk
    }

    fn step(&mut self) {
        self.move_clock();
        if self.random.one_in(64) {
            // Looking around earlier than usual changes no answer.
            let keys = below(&mut self.random, 20);
            self.bench.store.sweep(keys);
        }
        let place = (below(&mut self.random, self.policies.len()), self.any_known_key());
        if self.time == Time::Forward && self.random.one_in(12) {
            self.take_several();
        } else {
            let verb = self.any_verb(&place);
            self.ask(place, verb);
        }
    }

    fn move_clock(&mut self) {
        if self.time == Time::BothWays && self.random.one_in(40) {
            let back = match self.random.below(4) {
                0 => Micros(self.random.below(50)),
                1 => Micros(self.random.below(2_000_000)),
                2 => Micros::HOUR,
                _ => Micros(self.random.pick(&self.spans) / 8),
            };
            self.forget_what_may_be_forgotten();
            self.now = self.now - back;
        } else {
            let pause = self.random.pause(&self.spans);
            self.now = self.now + pause;
        }
        self.bench.clock.set(self.now);
    }

    /// Before the clock steps back: what has come to its end by now may be gone or may be there still.
    fn forget_what_may_be_forgotten(&mut self) {
        for ((policy, _), pasts) in &mut self.pasts {
            forget_if_rested(&self.policies[*policy].0, pasts, self.now);
            for past in pasts.clone() {
                let unpromised = if past.promised <= self.now { Micros::ZERO } else { past.promised };
                let unblocked = if past.block.until <= self.now { Block::default() } else { past.block };
                may_also_be(pasts, Subject { promised: unpromised, ..past.clone() });
                may_also_be(pasts, Subject { block: unblocked, ..past.clone() });
                may_also_be(pasts, Subject { promised: unpromised, block: unblocked, ..past });
            }
        }
    }

    fn ask(&mut self, place: (usize, String), verb: Verb) {
        let (policy, installed) = &self.policies[place.0];
        let ask = Ask::new(installed, &place.1);
        // Whoever asks for the verdict only gets the same.
        let told = match &verb {
            Verb::Take(take) if self.random.one_in(4) => {
                Told::Verdict(self.bench.store.verdict_now(&ask, take).unwrap())
            }
            _ => Told::InFull(self.bench.store.decide_now(&[ask], &verb).unwrap()),
        };
        let pasts = self.pasts.entry(place.clone()).or_insert_with(|| vec![policy.fresh()]);
        if self.time == Time::BothWays {
            forget_if_rested(policy, pasts, self.now);
        }
        let before = pasts.clone();
        let mut left: Vec<Subject> = Vec::new();
        let mut expected = Vec::new();
        for mut past in pasts.drain(..) {
            if let Verb::Take(take) = &verb {
                the_short_cut_agrees(policy, &past, take, self.now);
            }
            let decision = policy.decide(&mut past, &verb, self.now).decision;
            if told.agrees_with(&decision) {
                may_also_be(&mut left, past);
            }
            expected.push(decision);
        }
        assert!(
            !left.is_empty(),
            "{place:?} at {:?}: {verb:?}\n  store: {told:?}\n  core: {expected:?}\n  after {before:?}\n  by {policy:?}",
            self.now,
        );
        *pasts = left;
        if let Told::InFull(told) = told {
            self.remember(place, &verb, &told);
        }
    }

    /// One take for two or three keys, perhaps of several policies.
    fn take_several(&mut self) {
        let mut places: Vec<(usize, String)> = Vec::new();
        for _ in 0..self.random.between(2, 3) {
            let place = (below(&mut self.random, self.policies.len()), self.any_known_key());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let cost = self.any_cost(&places[0]);
        let take = self.random.take(cost, &self.spans).held_as(LeaseId(self.random.between(1, 30)));
        let times: Vec<u64> = places.iter().map(|_| self.random.pick(&[1, 1, 1, 0, 2, 5])).collect();
        let asks: Vec<_> = places
            .iter()
            .zip(&times)
            .map(|((policy, key), &times)| Ask::new(&self.policies[*policy].1, key.as_str()).times(times))
            .collect();
        let told = self.bench.store.decide_now(&asks, &Verb::Take(take)).unwrap();

        let policies: Vec<Policy> = places.iter().map(|(policy, _)| self.policies[*policy].0.clone()).collect();
        let kept = |(place, policy): (&(usize, String), &Policy)| match self.pasts.get(place) {
            Some(pasts) => pasts[0].clone(), // a clock that only goes forward leaves one past
            None => policy.fresh(),
        };
        let mut subjects: Vec<Subject> = places.iter().zip(&policies).map(kept).collect();
        let parties = policies.iter().zip(&mut subjects).zip(&times);
        let mut parties: Vec<_> =
            parties.map(|((policy, subject), &times)| policy.party(subject).times(times)).collect();
        let expected = take_together(&mut parties, &take, self.now).decision;
        assert_eq!(told, expected, "{places:?} at {:?}: {take:?} by {policies:?}", self.now);
        self.pasts.extend(places.into_iter().zip(subjects.into_iter().map(|subject| vec![subject])));
    }

    /// Notes what could be given back, and the waits that were told: interesting moments to come back at.
    fn remember(&mut self, (policy, key): (usize, String), verb: &Verb, told: &Decision) {
        let wait = told.retry_after().unwrap_or_default().max(told.wait()).0;
        if wait > 0 && wait < 100 * Micros::DAY.0 {
            let place = 3 + below(&mut self.random, 5);
            self.spans.truncate(8);
            self.spans.insert(place.min(self.spans.len()), wait);
        }
        if let (Verb::Take(take), true) = (verb, told.is_allowed()) {
            self.taken.push((policy, key, take.cost, self.now + told.wait()));
            if self.taken.len() > 20 {
                self.taken.remove(0);
            }
        }
    }

    fn any_known_key(&mut self) -> String {
        let index = below(&mut self.random, self.keys.len());
        self.keys[index].clone()
    }

    fn any_cost(&mut self, place: &(usize, String)) -> u64 {
        let rules = self.policies[place.0].0.rules();
        let limit = rules.iter().map(|rule| rule.limiting().limit()).min().unwrap_or(1);
        self.random.cost(limit, limit / 2)
    }

    fn any_verb(&mut self, place: &(usize, String)) -> Verb {
        let cost = self.any_cost(place);
        let lease = LeaseId(self.random.between(1, 30));
        match self.random.below(40) {
            0..=25 => Verb::Take(self.random.take(cost, &self.spans).held_as(lease)),
            26 | 27 => Verb::Peek,
            28..=30 => match self.taken.iter().rev().find(|(policy, key, ..)| (*policy, key) == (place.0, &place.1)) {
                Some(&(_, _, cost, at)) => Verb::Refund { cost, at: Some(at) },
                None => Verb::Refund { cost, at: None },
            },
            31 => Verb::Refund { cost, at: None },
            32 => Verb::Settle { reserved: cost, actual: self.random.below(cost + 2), at: None },
            33 => Verb::Settle { reserved: cost, actual: self.random.below(cost + 2), at: Some(self.now) },
            34 => Verb::Penalize { cost },
            35 => Verb::Block { span: self.random.pause(&self.spans) },
            36 => Verb::Release(Release::Lease(lease)),
            37 if self.random.one_in(2) => {
                let lease = self.random.one_in(2).then_some(lease);
                Verb::Undo { cost, at: self.now + self.random.pause(&self.spans), lease }
            }
            37 => Verb::Release(Release::Oldest(self.random.below(3))),
            38 => Verb::Heartbeat(lease),
            _ if self.random.one_in(4) => Verb::Reset,
            _ => Verb::Take(Take::now(1)),
        }
    }
}

/// A key that is as good as new may be forgotten from now on.
fn forget_if_rested(policy: &Policy, pasts: &mut Vec<Subject>, now: Micros) {
    if pasts.iter().any(|past| policy.rests_at(past, now) <= now) {
        may_also_be(pasts, policy.fresh());
    }
}

/// A place in a list of this length.
fn below(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap()
}

fn may_also_be(pasts: &mut Vec<Subject>, past: Subject) {
    if !pasts.contains(&past) {
        pasts.push(past);
    }
}

/// The core's own short cut for one meter answers as the long way does, and leaves the same state.
fn the_short_cut_agrees(policy: &Policy, past: &Subject, take: &Take, now: Micros) {
    let ([State::Meter(meter)], true, true) = (past.states.as_slice(), past.promised <= now, past.block.until <= now)
    else {
        return;
    };
    let mut quick = *meter;
    let Some(metered) = policy.take_metered(&mut quick, take, now) else { return };
    let mut slow = Subject { promised: Micros::ZERO, ..past.clone() };
    let step = policy.decide(&mut slow, &Verb::Take(*take), now);
    assert_eq!(Decision::of_one(metered.rule, now), step.decision, "{take:?} after {past:?} by {policy:?}");
    assert_eq!((metered.changed, metered.promised.unwrap_or_default()), (step.changed, slow.promised));
    assert_eq!(State::Meter(quick), slow.states[0]);
}

fn any_policy(random: &mut Random, name: &str) -> Policy {
    let rules: Vec<_> = (0..random.pick(&[1, 1, 1, 2, 3]))
        .map(|index| {
            let kind = random.pick(&Kind::ALL);
            let shadow = random.one_in(6);
            let rule = random.rule(&format!("rule {index}"), kind).shadow(shadow);
            random.counting(rule)
        })
        .collect();
    Policy::new(name, rules).expect("sound rules")
}

/// Keys that are easily confused: of all lengths, and of few letters.
fn any_key(random: &mut Random) -> String {
    let length = random.pick(&LENGTHS);
    let odd_one = below(random, length.max(1));
    let odd = random.pick(&['a', 'b', '\0']);
    (0..length).map(|index| if index == odd_one { odd } else { 'a' }).collect()
}

fn walks(time: Time) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let only = number("TOLLGATE_WALK_SEED");
    let seeds = only.map_or(0..number("TOLLGATE_WALK_EPISODES").unwrap_or(EPISODES), |seed| seed..seed + 1);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut walk = Walk::new(seed, time);
            for _ in 0..STEPS {
                walk.step();
            }
            let stats = walk.bench.store.stats();
            assert_eq!((stats.overflowed, stats.evicted), (0, 0), "there is room for all");
        });
        if let Err(cause) = outcome {
            eprintln!("TOLLGATE_WALK_SEED={seed} replays this, time {time:?}");
            std::panic::resume_unwind(cause);
        }
    }
}

/// 600 000 steps.
#[test]
fn the_store_answers_as_the_core_does() {
    walks(Time::Forward);
}

/// As many again.
#[test]
fn the_store_answers_as_the_core_does_when_clocks_step_back() {
    walks(Time::BothWays);
}

/// What a walk found: a penalty of nothing left an entry of nothing behind, and the key seemed used.
#[test]
fn a_penalty_of_nothing_changes_nothing() {
    let rules = [
        Rule::token_bucket("a", Quota::per_minute(5)),
        Rule::fixed_window("b", Quota::per_minute(5)),
        Rule::sliding_log("c", Quota::per_minute(5)),
        Rule::sliding_counter("d", Quota::per_minute(5)),
        Rule::concurrency("e", 5, Duration::from_secs(60)),
    ];
    for rule in rules {
        let bench = Bench::roomy();
        let policy = bench.install("policy", [rule.clone()]);
        // A block keeps the key in the store, so that what the penalty leaves is kept as well.
        let _ = bench.decide(&policy, "key", Verb::Block { span: Micros::DAY });
        let _ = bench.decide(&policy, "key", Verb::Penalize { cost: 0 });
        let told = bench.decide(&policy, "key", Verb::Block { span: Micros::ZERO });
        assert_eq!((told.remaining(), told.reset_after()), (5, Micros::ZERO), "{rule:?}");
        assert!(bench.store.is_empty(), "{rule:?}");
    }
}
