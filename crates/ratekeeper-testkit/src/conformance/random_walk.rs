//! Random walk: at every step, a store and the core give the same decision in every field, for every algorithm (law 11).

use ratekeeper_core::{LeaseId, OnQuotaChange, Period, Release, Rule, Span, Store, Timestamp, Verb};

use super::Bench;
use crate::{
    gate::{Gate, GateRequest},
    random::{Kind, Random},
};

/// Policies of one to three rules of any kind; one key each, every verb.
pub async fn a_random_walk_is_answered_as_the_core_answers<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
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
        let policy = bench.install(bench.policy(&name, rules.clone()), OnQuotaChange::Keep);
        let key = bench.key_under(policy, "walker");
        let mut core = Gate::of(rules.clone()).starting_at(bench.now());
        for step in 0..STEPS {
            let spans: Vec<u64> =
                rules.iter().map(period).chain([core.peek().reset_after_span().as_micros()]).collect();
            // At most a week per step, so that the walk stays within the years of the oracle's calendar.
            bench.advance(random.pause(&spans).min(Span::WEEK));
            core.now = bench.now();
            let request = request(&mut random, &core, &spans, step);
            let (expected, found) = (core.ask(request), key.verb(request).await);
            let same = expected.verdict == found.verdict
                && expected.decided_by == found.decided_by
                && expected.lease == found.lease
                && expected.rules == found.rules;
            assert!(same, "seed {seed} step {step} {request:?}\nrules {rules:?}\ncore  {expected:?}\nstore {found:?}");
        }
    }
}

/// A request near the limits of one of the rules.
fn request(random: &mut Random, core: &Gate, spans: &[u64], step: u64) -> GateRequest {
    let present = core.would(Verb::Peek, core.now);
    let rule = random.pick(&present.rules);
    let cost = random.cost(rule.limit, rule.remaining);
    let earlier = Timestamp::from_micros(core.now.as_micros().saturating_sub(random.pick(spans) / 2));
    let at = random.pick(&[None, Some(core.now), Some(core.key_state.promised), Some(earlier)]);
    let lease = LeaseId(step.saturating_sub(random.below(4)));
    let verb = match random.below(24) {
        0 => Verb::Peek,
        1 | 2 => Verb::Refund { at },
        3 => Verb::Settle { actual: random.below(cost + 2), at },
        4 => Verb::Penalize,
        5 if random.one_in(4) => {
            Verb::Block { span: Span::from_micros(random.pick(&[0, 1, random.clone().pick(spans)])) }
        }
        6 if random.one_in(4) => Verb::Reset,
        7 => Verb::Release(Release::Lease(lease)),
        8 => return GateRequest { cost: random.below(3), verb: Verb::Release(Release::Oldest) },
        9 => Verb::Heartbeat(lease),
        10 => Verb::Undo { at: at.unwrap_or(core.now), lease: random.one_in(2).then_some(lease) },
        _ => Verb::Take(random.take(spans).with_lease(LeaseId(step))),
    };
    GateRequest { cost, verb }
}

/// Length of the rule's period in microseconds.
fn period(rule: &Rule) -> u64 {
    match rule.quota().period() {
        Period::Span(span) => span.as_micros(),
        Period::Month => 30 * Span::DAY.as_micros(),
        Period::Year => 365 * Span::DAY.as_micros(),
    }
}

const EPISODES: u64 = 40;
const STEPS: u64 = 60;
