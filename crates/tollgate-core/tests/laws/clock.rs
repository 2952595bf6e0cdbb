//! Law 9: a clock that steps back neither frees permits nor locks a key out for longer than the tolerance.
//!
//! Real time passes steadily here; the clock follows it and now and then steps back. What was admitted is then judged
//! by real time, which the core has never seen. A lock-out is judged by what the key was told when it was last changed:
//! a step back may add the tolerance to that, and no more.
//!
//! Windows of the epoch and the calendar belong to the clock: when it steps back into an earlier window, what is used
//! moves there and is forgotten when that one ends. So each step may let one more limit through, and no more.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Micros, Quota, Rule, Take, UtcOffset, Verb};
use tollgate_testkit::{
    gate::{Expect, Gate},
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, longest, shortest, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 4;

fn survives_steps_back(name: &str, kind: Kind) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &[kind]);
        let rule = episode.rules[0].clone();
        // Far from the epoch, so that there is somewhere to step back to.
        episode.gate.now = episode.gate.now.max(Micros(1_700_000_000_000_000));
        let mut world = World { behind: 0, steps_back: 0, changed: episode.gate.clone() };
        let mut admitted = Vec::new();
        for _ in 0..episode.length {
            if episode.random.one_in(4) {
                world.step_back(&mut episode.gate, step_size(&mut episode.random, &rule));
                let cost = episode.random.between(1, rule.quota().burst_or_limit());
                if let Err(breach) = world.is_not_locked_out(&rule, &episode.gate, cost) {
                    panic!("law 9: {breach}\n{}", episode.story());
                }
                // A key that has moved with the clock is judged anew from there.
                if episode.gate.step(Verb::Peek).changed {
                    world.changed = episode.gate.clone();
                }
            }
            let take = episode.next();
            let step = episode.gate.step(Verb::Take(take));
            episode.note(format!("{:?}, {} us behind", step.decision.verdict, world.behind));
            if step.decision.is_allowed() && take.cost > 0 {
                let at = episode.gate.now.0 + world.behind + step.decision.wait().0;
                admitted.push(Flow { at, permits: take.cost.into() });
            }
            // Charged, or refused and counted.
            if step.changed {
                world.changed = episode.gate.clone();
            }
        }
        if let Err(breach) = world.frees_nothing(&rule, &admitted) {
            panic!("law 9: {breach}\n{}", episode.story());
        }
        episode.length
    });
}

/// Often around the tolerance, sometimes far beyond it.
fn step_size(random: &mut Random, rule: &Rule) -> u64 {
    let tolerance = tolerance(rule).0;
    match random.below(4) {
        0 => random.around(tolerance),
        1 => random.below(tolerance + 1),
        2 => random.below(3 * longest(rule).0),
        _ => random.below(Micros::DAY.0),
    }
}

/// What the design states, worked out again.
fn tolerance(rule: &Rule) -> Micros {
    let tenth = Micros(shortest(rule).0 / 10);
    if tenth < Micros::SECOND { tenth } else { Micros::SECOND }
}

/// Real time, and what the clock makes of it.
struct World {
    /// How far the clock is behind real time.
    behind: u64,
    steps_back: u64,
    /// The gate as it was when it last changed.
    changed: Gate,
}

impl World {
    fn step_back(&mut self, gate: &mut Gate, by: u64) {
        gate.turn_back(Micros(by));
        self.behind += by;
        self.steps_back += 1;
    }

    fn is_not_locked_out(&self, rule: &Rule, gate: &Gate, cost: u64) -> Result<(), String> {
        let take = Verb::Take(Take::now(cost));
        // Asked by a rule that does not count the asking itself.
        let forgiving = |gate: &Gate| {
            let mut forgiving = Gate::new(rule.clone().count_refused(false)).starting_at(gate.now);
            forgiving.subject = gate.subject.clone();
            forgiving
        };
        let mut gate = forgiving(gate);
        let Some(told) = gate.ask(take).retry_after() else { return Ok(()) };
        let told_then = forgiving(&self.changed).ask(take).retry_after().unwrap_or(Micros::ZERO);
        let most = told_then + tolerance(rule) + grain(rule);
        if told > most {
            return Err(format!("told {told} after a step back, at most {most} was due"));
        }
        if told > Micros::ZERO {
            if gate.would(take, gate.now + told - Micros(1)).is_allowed() {
                return Err(format!("told {told} after a step back, and less would have done"));
            }
            if !gate.would(take, gate.now + told).is_allowed() {
                return Err(format!("told {told} after a step back, came back then and was denied"));
            }
        }
        Ok(())
    }

    fn frees_nothing(&self, rule: &Rule, admitted: &[Flow]) -> Result<(), String> {
        let Algorithm::FixedWindow { align: Align::Epoch | Align::Calendar(_) } = rule.algorithm() else {
            return within_bound(rule, admitted);
        };
        let most = i128::from(rule.quota().limit()) * i128::from(2 + self.steps_back);
        for first in admitted {
            let inside = |flow: &&Flow| flow.at >= first.at && flow.at - first.at < shortest(rule).0;
            let permits: i128 = admitted.iter().filter(inside).map(|flow| flow.permits).sum();
            if permits > most {
                return Err(format!("{permits} permits in one window, {most} is the most"));
            }
        }
        Ok(())
    }
}

/// Where time is counted in windows, ticks or slices, a moved state begins with a whole one.
fn grain(rule: &Rule) -> Micros {
    match rule.algorithm() {
        // Months differ in length, and the line may reach over several.
        Algorithm::FixedWindow { align: Align::Calendar(_) } => longest(rule) + Micros(10 * Micros::DAY.0),
        Algorithm::FixedWindow { .. } | Algorithm::TokenBucket { .. } => longest(rule),
        Algorithm::SlidingCounter { buckets } => Micros(longest(rule).0.div_ceil(u64::from(buckets))),
        _ => Micros::ZERO,
    }
}

macro_rules! steps_back {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            survives_steps_back(stringify!($name), Kind::$kind);
        }
    )*};
}

steps_back! {
    a_token_bucket_survives_steps_back: TokenBucket,
    a_stepwise_bucket_survives_steps_back: Stepwise,
    a_leaky_meter_survives_steps_back: Leaky,
    a_shaped_bucket_survives_steps_back: Shaped,
    a_window_of_the_epoch_survives_steps_back: Epoch,
    a_window_of_the_first_request_survives_steps_back: FirstRequest,
    a_calendar_window_survives_steps_back: Calendar,
    a_sliding_log_survives_steps_back: Log,
    a_sliding_counter_survives_steps_back: Counter,
    concurrency_survives_steps_back: Concurrency,
}

fn one_of_each() -> Vec<Rule> {
    let quota = Quota::per_minute(10);
    vec![
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket("stepwise", quota).stepwise(),
        Rule::leaky_bucket("leaky", quota),
        Rule::leaky_bucket("shaped", quota).shaped(),
        Rule::fixed_window("epoch", quota),
        Rule::fixed_window("first request", quota).align(Align::FirstRequest),
        Rule::fixed_window("calendar", Quota::per_day(10)).align(Align::Calendar(UtcOffset::hours(2))),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ]
}

#[test]
fn a_full_key_opens_as_told_after_the_clock_went_back_a_day() {
    for rule in one_of_each() {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        gate.turn_back(Micros::DAY);
        let retry = gate.take(10).expect_deny();
        gate.advance(retry);
        assert!(gate.take(10).is_allowed(), "{} was told {retry}", rule.name());
    }
}

/// A step of up to the tolerance is waited out; beyond that, the key moves along and waits out the tolerance only.
#[test]
fn a_small_step_back_is_waited_out_and_a_large_one_costs_no_more() {
    for rule in one_of_each().into_iter().filter(|rule| !matches!(rule.algorithm(), Algorithm::FixedWindow { .. })) {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        let usual = gate.take(10).expect_deny();
        let told_after = |step: Micros| gate.clone().turn_back(step).take(10).expect_deny();
        assert_eq!(told_after(Micros(1)), usual + Micros(1), "{}", rule.name());
        assert_eq!(told_after(Micros::SECOND), usual + Micros::SECOND, "{}", rule.name());
        let slice = if rule.name() == "counter" { Micros::from_secs(6) } else { Micros::ZERO };
        for step in [Micros::SECOND + Micros(1), Micros::MINUTE, Micros::DAY, Micros::WEEK] {
            let moved = told_after(step);
            let due = usual..=usual + Micros::SECOND + slice;
            assert!(due.contains(&moved), "{} after {step}: {moved} instead of {usual}", rule.name());
        }
    }
}

/// While the clock catches up after a small step, it is as if it stood still: a permit neither comes back nor is lost.
#[test]
fn a_clock_that_steps_back_and_catches_up_has_made_no_difference() {
    for rule in one_of_each() {
        let mut steady = Gate::new(rule.clone());
        steady.take(4).expect_allow();
        let mut shaken = steady.clone();
        shaken.turn_back(Micros::from_millis(800));
        assert_eq!(shaken.peek().remaining(), 6, "{}", rule.name());
        shaken.advance(Micros::from_millis(800));
        for gate in [&mut steady, &mut shaken] {
            gate.advance(Micros::from_secs(7)).take(1).expect_allow();
        }
        assert_eq!(steady.subject, shaken.subject, "{}", rule.name());
        assert_eq!(steady.peek(), shaken.peek(), "{}", rule.name());
    }
}

#[test]
fn a_denial_after_a_small_step_back_still_changes_nothing() {
    for rule in one_of_each() {
        let mut gate = Gate::new(rule);
        gate.take(10).expect_allow();
        gate.turn_back(Micros::from_millis(900));
        let before = gate.subject.clone();
        let step = gate.step(Verb::Take(Take::now(10)));
        assert!(!step.changed && gate.subject == before, "{step:?}");
    }
}

#[test]
fn a_block_is_not_longer_after_the_clock_went_back() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_minute(10)));
    let _ = gate.ask(Verb::Block { span: Micros::MINUTE });
    gate.turn_back(Micros::DAY);
    let retry = gate.take(1).expect_deny();
    assert!(retry <= Micros::MINUTE + Micros::SECOND, "{retry}");
    gate.advance(retry).take(1).expect_allow();
}
