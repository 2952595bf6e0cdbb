//! Law 11: the store answers what the core answers, on every field, for every algorithm, at every step of a random
//! walk.

use tollgate_core::{Carry, LeaseId, Micros, Period, Release, Rule, Store, Verb};

use super::Bench;
use crate::{
    gate::Gate,
    random::{Kind, Random},
};

/// Policies of one to three rules of any kind, each walked by a few keys with every verb.
pub async fn a_random_walk_is_answered_as_the_core_answers<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    for seed in 0..EPISODES {
        let mut random = Random::new(seed);
        let rules: Vec<Rule> = (0..random.between(1, 3))
            .map(|index| {
                let kind = random.pick(&Kind::ALL);
                let rule = random.rule(&format!("{index}"), kind);
                random.counting(rule)
            })
            .collect();
        let name = format!("walk {seed}");
        let policy = bench.install(bench.policy(&name, rules.clone()), Carry::Keep);
        let key = bench.key_under(policy, "walker");
        let mut core = Gate::of(rules.clone()).starting_at(bench.now());
        for step in 0..STEPS {
            let spans: Vec<u64> = rules.iter().map(period).chain([core.peek().reset_after().0]).collect();
            // Not too far: a walk of forty days at a time would soon leave the calendar.
            bench.advance(random.pause(&spans).min(Micros::WEEK));
            core.now = bench.now();
            let verb = verb(&mut random, &core, &spans, step);
            let (expected, found) = (core.ask(verb), key.verb(verb).await);
            let same = expected.verdict == found.verdict
                && expected.decided_by == found.decided_by
                && expected.lease == found.lease
                && expected.rules == found.rules;
            assert!(same, "seed {seed} step {step} {verb:?}\nrules {rules:?}\ncore  {expected:?}\nstore {found:?}");
        }
    }
}

fn verb(random: &mut Random, core: &Gate, spans: &[u64], step: u64) -> Verb {
    let standing = core.would(Verb::Peek, core.now);
    let rule = random.pick(&standing.rules);
    let cost = random.cost(rule.limit, rule.remaining);
    let moment = Micros(core.now.0.saturating_sub(random.pick(spans) / 2));
    let at = random.pick(&[None, Some(core.now), Some(core.subject.promised), Some(moment)]);
    let lease = LeaseId(step.saturating_sub(random.below(4)));
    match random.below(24) {
        0 => Verb::Peek,
        1 | 2 => Verb::Refund { cost, at },
        3 => Verb::Settle { reserved: cost, actual: random.below(cost + 2), at },
        4 => Verb::Penalize { cost },
        5 if random.one_in(4) => Verb::Block { span: Micros(random.pick(&[0, 1, random.clone().pick(spans)])) },
        6 if random.one_in(4) => Verb::Reset,
        7 => Verb::Release(Release::Lease(lease)),
        8 => Verb::Release(Release::Oldest(random.below(3))),
        9 => Verb::Heartbeat(lease),
        10 => Verb::Undo { cost, at: at.unwrap_or(core.now), lease: random.one_in(2).then_some(lease) },
        _ => Verb::Take(random.take(cost, spans).held_as(LeaseId(step))),
    }
}

fn period(rule: &Rule) -> u64 {
    match rule.quota().period() {
        Period::Span(span) => span.0,
        Period::Month => 30 * Micros::DAY.0,
    }
}

const EPISODES: u64 = 40;
const STEPS: u64 = 60;
