//! Random inputs of a scenario: clock, policies, verbs, costs and charges.

use ratekeeper_core::{
    LeaseId, Policy, Release, Rule, Span, Speed, Take, Timestamp, Verb,
    algorithm::{AnyAlgorithm, Lease},
};
use ratekeeper_testkit::random::{Kind, Random};

use super::scenario::Scenario;
use crate::ledger::{Bill, Owed};

impl Scenario {
    pub(super) fn move_clock(&mut self) {
        if self.steps_back && self.random.one_in(20) {
            let back = match self.random.below(5) {
                0 => self.random.below(50),
                1 => self.random.below(2_000_000),
                2 => Span::HOUR.as_micros(),
                3 => 400 * Span::DAY.as_micros(),
                _ => self.random.pick(&self.spans) / 8,
            };
            self.now = self.now - Span::from_micros(back);
        } else {
            self.now = self.now + self.random.pause(&self.spans);
        }
    }

    pub(super) fn any_key(&mut self) -> usize {
        usize::try_from(self.random.below(self.keys.len() as u64)).unwrap()
    }

    /// Mostly the cost itself; or a multiple that differs from key to key.
    pub(super) fn any_multiple(&mut self, cost: u64) -> u64 {
        if self.random.one_in(3) { cost.saturating_mul(self.random.below(4)) } else { cost }
    }

    pub(super) fn any_cost(&mut self, key: usize) -> u64 {
        let key = &self.keys[key];
        let mut subject = key.subject();
        let peeked = key.policy.decide_allotted(&mut subject, 0, &Verb::Peek, self.now).decision;
        let limits: Vec<u64> = peeked.rules.iter().map(|rule| rule.limit).collect();
        let limit = if limits.is_empty() { 1 } else { self.random.pick(&limits) };
        self.random.cost(limit, peeked.remaining())
    }

    pub(super) fn any_take(&mut self) -> Take {
        let lease = LeaseId(self.random.between(1, 30));
        self.random.take(&self.spans).with_lease(lease)
    }

    pub(super) fn any_verb(&mut self, key: usize) -> (u64, Verb) {
        let cost = self.any_cost(key);
        let lease = LeaseId(self.random.between(1, 30));
        let known = if self.taken.is_empty() { None } else { Some(self.random.pick(&self.taken)) };
        let verb = match self.random.below(40) {
            0 => Verb::Peek,
            1 => Verb::Refund { at: None },
            2 => Verb::Refund { at: known.map(|(_, _, at)| at) },
            3..=5 => match known {
                Some((_, cost, at)) => {
                    let lease = self.random.one_in(2).then_some(lease);
                    return (cost, Verb::Undo { at, lease });
                }
                None => Verb::Peek,
            },
            6 => Verb::Settle { actual: self.random.below(2 * cost + 2), at: None },
            7 => Verb::Settle { actual: cost / 2, at: known.map(|(_, _, at)| at) },
            8 => Verb::Penalize,
            9 if self.random.one_in(8) => return (self.random.pick(&[u64::MAX, 1 << 52, 1 << 45]), Verb::Penalize),
            9 => Verb::Block { span: Span::from_micros(self.random.pick(&self.spans)) },
            10 if self.random.one_in(3) => {
                Verb::Block { span: self.random.pick(&[Span::ZERO, Span::from_micros(u64::MAX)]) }
            }
            10 => Verb::Block { span: Span::ZERO },
            11 | 12 => Verb::Release(Release::Lease(lease)),
            13 => Verb::Release(Release::Oldest),
            14 | 15 => Verb::Heartbeat(lease),
            16 if self.random.one_in(6) => Verb::Reset,
            _ => Verb::Take(self.any_take()),
        };
        (cost, verb)
    }

    pub(super) fn any_bill(&mut self, key: usize) -> Bill {
        let rules = self.keys[key].policy.rules().len();
        let due = if self.random.one_in(3) { self.now + self.random.pause(&self.spans) } else { Timestamp::EPOCH };
        let due = due.min(self.now + self.keys[key].policy.horizon().min(Span::DAY));
        let mut owed = Vec::new();
        for rule in 0..rules {
            let leases = match self.keys[key].policy.rules()[rule].algorithm() {
                AnyAlgorithm::Leases(_) => (0..self.random.below(3)).map(|_| self.any_lease()).collect(),
                _ => Vec::new(),
            };
            let permits = if self.random.one_in(3) { 0 } else { self.any_cost(key) };
            owed.push(Owed { permits, leases });
        }
        let released = (0..self.random.below(3)).map(|_| LeaseId(self.random.between(1, 30))).collect();
        Bill { owed, due, released }
    }

    pub(super) fn any_lease(&mut self) -> Lease {
        let id = LeaseId(self.random.between(1, 30));
        Lease { id, permits: self.random.between(1, 3), until: self.now + self.random.pause(&self.spans) }
    }
}

/// A policy of the kind under test alone, or among others; some rules are in shadow or count refused requests.
pub(super) fn any_policy(random: &mut Random, kind: Kind) -> Policy {
    let mut rules = vec![random.rule("rule 0", kind)];
    if random.one_in(2) {
        let more = if random.one_in(12) { random.between(7, 12) } else { random.between(1, 2) };
        for index in 1..=more {
            let kind = random.pick(&Kind::ALL);
            rules.push(random.rule(&format!("rule {index}"), kind));
        }
    }
    // From a copy: the other rules are those of the seed, with or without it.
    let mut more = random.clone();
    let block = more.one_in(4).then(|| more.auto_block("block"));
    let rules: Vec<Rule> = rules
        .into_iter()
        .map(|rule| {
            let shadow = random.one_in(8);
            random.counting(rule.shadow(shadow))
        })
        .chain(block)
        .collect();
    let speed = if random.one_in(2) { Speed::prepaid() } else { Speed::Exact };
    Policy::new("policy", rules).unwrap().with_speed(speed)
}
