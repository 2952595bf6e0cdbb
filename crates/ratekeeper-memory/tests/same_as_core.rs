//! Equivalence with the core: random verbs on random policies, compared with a plain map of key states.
//!
//! The store packs meters into entries, has fast paths, moves keys between table and heap, and drops keys in their
//! initial state. None of that may be visible. Each step sends the same request to the store and to the map, and
//! compares whole decisions.
//!
//! One case is ambiguous: after the clock steps back, it is not visible whether a key had been dropped before. A key
//! that was in its initial state may be used again, as in the map, or may be new; the same holds for a block or a
//! reservation that had ended. So the map keeps every *possible* past of a key. Each decision rules out the pasts that
//! do not match, and at least one must remain.
//!
//! A failure prints its seed. `RATEKEEPER_WALK_SEED` replays that episode; `RATEKEEPER_WALK_EPISODES` sets the number
//! of episodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]
#![allow(clippy::print_stderr, reason = "a failure reports its seed")]

mod support;

use std::{collections::HashMap, env, time::Duration};

use ratekeeper_core::{
    Ask, Decision, LeaseId, Policy, Quota, Release, Rule, Span, Take, Timestamp, Verb, Verdict,
    algorithm::{Algorithm, State},
    store_api::{Block, KeyState, take_all},
};
use ratekeeper_memory::{InstalledPolicy, MemoryConfig};
use ratekeeper_testkit::random::{Kind, Random};
use support::Bench;

/// Lengths on both sides of each boundary at which keys are read differently.
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
    now: Timestamp,
    policies: Vec<(Policy, InstalledPolicy)>,
    keys: Vec<String>,
    /// Possible states, by policy and key.
    pasts: HashMap<(usize, String), Vec<KeyState>>,
    /// Waits of earlier decisions, and periods of the rules.
    spans: Vec<u64>,
    /// Reservations and takes that can be refunded: policy, key, cost, time.
    taken: Vec<(usize, String, u64, Timestamp)>,
}

/// The store's decision, or its verdict alone.
#[derive(Debug)]
enum Found {
    InFull(Decision),
    Verdict(Verdict),
}

impl Found {
    fn agrees_with(&self, decision: &Decision) -> bool {
        match self {
            Self::InFull(found) => found == decision,
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
                ratekeeper_core::Period::Span(span) => Some(span.as_micros()),
                _ => None,
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
            // An early sweep changes no decision.
            let keys = below(&mut self.random, 20);
            self.bench.store.sweep(keys);
        }
        let place = (below(&mut self.random, self.policies.len()), self.any_known_key());
        if self.time == Time::Forward && self.random.one_in(12) {
            self.take_many();
        } else {
            let (cost, verb) = self.any_verb(&place);
            self.ask(place, cost, verb);
        }
    }

    fn move_clock(&mut self) {
        if self.time == Time::BothWays && self.random.one_in(40) {
            let back = match self.random.below(4) {
                0 => Span::from_micros(self.random.below(50)),
                1 => Span::from_micros(self.random.below(2_000_000)),
                2 => Span::HOUR,
                _ => Span::from_micros(self.random.pick(&self.spans) / 8),
            };
            self.forget_what_may_be_forgotten();
            self.now = self.now - back;
        } else {
            let pause = self.random.pause(&self.spans);
            self.now = self.now + pause;
        }
        self.bench.clock.set(self.now);
    }

    /// Before the clock steps back: state that has expired by now may have been dropped, or may still be stored.
    fn forget_what_may_be_forgotten(&mut self) {
        for ((policy, _), pasts) in &mut self.pasts {
            forget_if_rested(&self.policies[*policy].0, pasts, self.now);
            for past in pasts.clone() {
                let unpromised = if past.promised <= self.now { Timestamp::EPOCH } else { past.promised };
                let unblocked = if past.block.until <= self.now { Block::default() } else { past.block };
                may_also_be(pasts, KeyState { promised: unpromised, ..past.clone() });
                may_also_be(pasts, KeyState { block: unblocked, ..past.clone() });
                may_also_be(pasts, KeyState { promised: unpromised, block: unblocked, ..past });
            }
        }
    }

    fn ask(&mut self, place: (usize, String), cost: u64, verb: Verb) {
        let (policy, installed) = &self.policies[place.0];
        let ask = Ask::new(installed, &place.1).cost(cost);
        // A verdict without a decision must agree as well.
        let found = match &verb {
            Verb::Take(take) if self.random.one_in(4) => {
                Found::Verdict(self.bench.store.verdict_now(&ask, take).unwrap())
            }
            _ => Found::InFull(self.bench.store.decide_now(&[ask], &verb).unwrap()),
        };
        let pasts = self.pasts.entry(place.clone()).or_insert_with(|| vec![policy.fresh()]);
        if self.time == Time::BothWays {
            forget_if_rested(policy, pasts, self.now);
        }
        let before = pasts.clone();
        let mut left: Vec<KeyState> = Vec::new();
        let mut expected = Vec::new();
        for mut past in pasts.drain(..) {
            if let Verb::Take(take) = &verb {
                the_fast_path_agrees(policy, &past, cost, take, self.now);
            }
            let decision = policy.decide(&mut past, cost, &verb, self.now).decision;
            if found.agrees_with(&decision) {
                may_also_be(&mut left, past);
            }
            expected.push(decision);
        }
        assert!(
            !left.is_empty(),
            "{place:?} at {:?}: {verb:?}\n  store: {found:?}\n  core: {expected:?}\n  after {before:?}\n  by {policy:?}",
            self.now,
        );
        *pasts = left;
        if let Found::InFull(found) = found {
            self.remember(place, cost, &verb, &found);
        }
    }

    /// One take for two or three keys, perhaps of several policies.
    fn take_many(&mut self) {
        let mut places: Vec<(usize, String)> = Vec::new();
        for _ in 0..self.random.between(2, 3) {
            let place = (below(&mut self.random, self.policies.len()), self.any_known_key());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let cost = self.any_cost(&places[0]);
        let take = self.random.take(&self.spans).with_lease(LeaseId(self.random.between(1, 30)));
        let costs: Vec<u64> =
            places.iter().map(|_| cost.saturating_mul(self.random.pick(&[1, 1, 1, 0, 2, 5]))).collect();
        let asks: Vec<_> = places
            .iter()
            .zip(&costs)
            .map(|((policy, key), &cost)| Ask::new(&self.policies[*policy].1, key.as_str()).cost(cost))
            .collect();
        let found = self.bench.store.decide_now(&asks, &Verb::Take(take)).unwrap();

        let policies: Vec<Policy> = places.iter().map(|(policy, _)| self.policies[*policy].0.clone()).collect();
        let kept = |(place, policy): (&(usize, String), &Policy)| match self.pasts.get(place) {
            Some(pasts) => pasts[0].clone(), // a clock that only goes forward leaves one past
            None => policy.fresh(),
        };
        let mut key_states: Vec<KeyState> = places.iter().zip(&policies).map(kept).collect();
        let keys = policies.iter().zip(&mut key_states).zip(&costs);
        let mut keys: Vec<_> = keys.map(|((policy, key_state), &cost)| policy.request_key(key_state, cost)).collect();
        let expected = take_all(&mut keys, &take, self.now).decision;
        assert_eq!(found, expected, "{places:?} at {:?}: {take:?} by {policies:?}", self.now);
        self.pasts.extend(places.into_iter().zip(key_states.into_iter().map(|key_state| vec![key_state])));
    }

    /// Stores what can be refunded, and the waits of decisions: times worth retrying at.
    fn remember(&mut self, (policy, key): (usize, String), cost: u64, verb: &Verb, found: &Decision) {
        let wait = found.verdict.retry_after_span().unwrap_or_default().max(found.verdict.wait()).as_micros();
        if wait > 0 && wait < 100 * Span::DAY.as_micros() {
            let place = 3 + below(&mut self.random, 5);
            self.spans.truncate(8);
            self.spans.insert(place.min(self.spans.len()), wait);
        }
        if let (Verb::Take(_), true) = (verb, found.is_allowed()) {
            self.taken.push((policy, key, cost, self.now + found.verdict.wait()));
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
        let limit = rules.iter().map(|rule| rule.algorithm().limit()).min().unwrap_or(1);
        self.random.cost(limit, limit / 2)
    }

    fn any_verb(&mut self, place: &(usize, String)) -> (u64, Verb) {
        let cost = self.any_cost(place);
        let lease = LeaseId(self.random.between(1, 30));
        let verb = match self.random.below(40) {
            0..=25 => Verb::Take(self.random.take(&self.spans).with_lease(lease)),
            26 | 27 => Verb::Peek,
            28..=30 => match self.taken.iter().rev().find(|(policy, key, ..)| (*policy, key) == (place.0, &place.1)) {
                Some(&(_, _, cost, at)) => return (cost, Verb::Refund { at: Some(at) }),
                None => Verb::Refund { at: None },
            },
            31 => Verb::Refund { at: None },
            32 => Verb::Settle { actual: self.random.below(cost + 2), at: None },
            33 => Verb::Settle { actual: self.random.below(cost + 2), at: Some(self.now) },
            34 => Verb::Penalize,
            35 => Verb::Block { span: self.random.pause(&self.spans) },
            36 => Verb::Release(Release::Lease(lease)),
            37 if self.random.one_in(2) => {
                let lease = self.random.one_in(2).then_some(lease);
                Verb::Undo { at: self.now + self.random.pause(&self.spans), lease }
            }
            37 => return (self.random.below(3), Verb::Release(Release::Oldest)),
            38 => Verb::Heartbeat(lease),
            _ if self.random.one_in(4) => Verb::Reset,
            _ => return (1, Verb::Take(Take::now())),
        };
        (cost, verb)
    }
}

/// A key in its initial state may be dropped from now on.
fn forget_if_rested(policy: &Policy, pasts: &mut Vec<KeyState>, now: Timestamp) {
    if pasts.iter().any(|past| policy.reset_at(past, now) <= now) {
        may_also_be(pasts, policy.fresh());
    }
}

/// A random index into a list of this length.
fn below(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap()
}

fn may_also_be(pasts: &mut Vec<KeyState>, past: KeyState) {
    if !pasts.contains(&past) {
        pasts.push(past);
    }
}

/// The core's fast path for one meter decides as the general path does, and leaves the same state.
fn the_fast_path_agrees(policy: &Policy, past: &KeyState, cost: u64, take: &Take, now: Timestamp) {
    let ([State::Meter(meter)], true, true) = (past.states.as_slice(), past.promised <= now, past.block.until <= now)
    else {
        return;
    };
    let mut quick = *meter;
    let Some(metered) = policy.take_metered(&mut quick, cost, take, now) else { return };
    let mut slow = KeyState { promised: Timestamp::EPOCH, ..past.clone() };
    let step = policy.decide(&mut slow, cost, &Verb::Take(*take), now);
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
    let only = number("RATEKEEPER_WALK_SEED");
    let seeds = only.map_or(0..number("RATEKEEPER_WALK_EPISODES").unwrap_or(EPISODES), |seed| seed..seed + 1);
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
            eprintln!("RATEKEEPER_WALK_SEED={seed} replays this, time {time:?}");
            std::panic::resume_unwind(cause);
        }
    }
}

/// 600 000 steps.
#[test]
fn the_store_answers_as_the_core_does() {
    walks(Time::Forward);
}

/// 600 000 steps, on a clock that also steps back.
#[test]
fn the_store_answers_as_the_core_does_when_clocks_step_back() {
    walks(Time::BothWays);
}

/// Regression: a penalty of 0 left an empty entry, and the key seemed used.
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
        let _ = bench.decide(&policy, "key", Verb::Block { span: Span::DAY });
        let _ = bench.decide_n(&policy, "key", 0, Verb::Penalize);
        let found = bench.decide(&policy, "key", Verb::Block { span: Span::ZERO });
        assert_eq!((found.remaining(), found.reset_after_span()), (5, Span::ZERO), "{rule:?}");
        assert!(bench.store.is_empty(), "{rule:?}");
    }
}
