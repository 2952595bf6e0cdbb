//! Law 9: a clock that steps back neither frees permits nor locks a key out for longer than the tolerance.
//!
//! Real time passes steadily here; the clock follows it and now and then steps back. What was admitted is then judged
//! by real time, which the core has never seen. A lock-out is judged by the decision that last changed the key:
//! a step back may add the tolerance to that, and no more.
//!
//! Windows of the epoch and the calendar belong to the clock: when it steps back into an earlier window, what is used
//! moves there and is forgotten when that one ends. So each step may let one more limit through, and no more.

use std::time::Duration;

use ratekeeper_core::{AlgorithmSpec, Align, Quota, Rule, Span, Take, Timestamp, UtcOffset, Verb};
use ratekeeper_testkit::{
    gate::{Expect, Gate},
    random::{Kind, Random},
};

use crate::{
    bounds::{Flow, is_rounded, longest, shortest, within_bound},
    episode::{Episode, play},
};

/// One in so many of the steps that the agreement takes.
const SHARE: u64 = 4;

fn survives_steps_back(name: &str, kind: Kind) {
    play(name, SHARE, |seed| {
        let mut episode = Episode::new(seed, &[kind]);
        let rule = episode.rules[0].clone();
        // Far from the epoch, so that there is somewhere to step back to.
        episode.gate.now = episode.gate.now.max(Timestamp::from_micros(1_700_000_000_000_000));
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
            let (cost, take) = episode.next();
            let step = episode.gate.step((cost, take));
            episode.note(format!("{:?}, {} us behind", step.decision.verdict, world.behind));
            if step.decision.is_allowed() && cost > 0 {
                let at = episode.gate.now.as_micros() + world.behind + step.decision.verdict.wait().as_micros();
                admitted.push(Flow { at, permits: cost.into() });
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
    let tolerance = tolerance(rule).as_micros();
    match random.below(4) {
        0 => random.around(tolerance),
        1 => random.below(tolerance + 1),
        2 => random.below(3 * longest(rule).as_micros()),
        _ => random.below(Span::DAY.as_micros()),
    }
}

/// What the design states, worked out again.
fn tolerance(rule: &Rule) -> Span {
    let tenth = Span::from_micros(shortest(rule).as_micros() / 10);
    if tenth < Span::SECOND { tenth } else { Span::SECOND }
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
        gate.turn_back(Span::from_micros(by));
        self.behind += by;
        self.steps_back += 1;
    }

    fn is_not_locked_out(&self, rule: &Rule, gate: &Gate, cost: u64) -> Result<(), String> {
        let take = (cost, Take::now());
        // Asked by a rule that does not count the asking itself.
        let forgiving = |gate: &Gate| {
            let mut forgiving = Gate::new(rule.clone().count_refused(false)).starting_at(gate.now);
            forgiving.key_state = gate.key_state.clone();
            forgiving
        };
        let mut gate = forgiving(gate);
        let Some(retry_after) = gate.ask(take).verdict.retry_after_span() else { return Ok(()) };
        let retry_after_then = forgiving(&self.changed).ask(take).verdict.retry_after_span().unwrap_or(Span::ZERO);
        let most = retry_after_then + tolerance(rule) + grain(rule);
        if retry_after > most {
            return Err(format!("retry_after is {retry_after} after a step back, at most {most} is right"));
        }
        if retry_after > Span::ZERO {
            if gate.would(take, gate.now + retry_after - Span::from_micros(1)).is_allowed() {
                return Err(format!("retry_after is {retry_after} after a step back, and less is enough"));
            }
            if !gate.would(take, gate.now + retry_after).is_allowed() {
                return Err(format!("retry_after is {retry_after} after a step back, and the request is denied then"));
            }
        }
        Ok(())
    }

    fn frees_nothing(&self, rule: &Rule, admitted: &[Flow]) -> Result<(), String> {
        let AlgorithmSpec::FixedWindow { align: Align::Epoch | Align::Calendar(_) } = rule.algorithm() else {
            return within_bound(rule, admitted);
        };
        let most = i128::from(rule.quota().limit()) * i128::from(2 + self.steps_back);
        for first in admitted {
            let inside = |flow: &&Flow| flow.at >= first.at && flow.at - first.at < shortest(rule).as_micros();
            let permits: i128 = admitted.iter().filter(inside).map(|flow| flow.permits).sum();
            if permits > most {
                return Err(format!("{permits} permits in one window, {most} is the most"));
            }
        }
        Ok(())
    }
}

/// Where time is counted in windows, ticks or slices, a moved state begins with a whole one.
fn grain(rule: &Rule) -> Span {
    match rule.algorithm() {
        // Months differ in length, and the line may reach over several.
        AlgorithmSpec::FixedWindow { align: Align::Calendar(_) } => {
            longest(rule) + Span::from_micros(10 * Span::DAY.as_micros())
        }
        AlgorithmSpec::FixedWindow { .. } | AlgorithmSpec::TokenBucket { .. } => longest(rule),
        AlgorithmSpec::SlidingCounter { buckets } => {
            Span::from_micros(longest(rule).as_micros().div_ceil(u64::from(buckets)))
        }
        // A state that moves meets the grid of a rounded rate elsewhere.
        _ if is_rounded(rule) => Span::from_micros(1),
        _ => Span::ZERO,
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
    a_rounded_bucket_survives_steps_back: Rounded,
    a_rounded_shaped_bucket_survives_steps_back: RoundedShaped,
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
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky", quota),
        Rule::leaky_bucket_shaped("shaped", quota),
        Rule::fixed_window("epoch", quota),
        Rule::fixed_window_aligned("first request", quota, Align::FirstRequest),
        Rule::fixed_window_aligned("calendar", Quota::per_day(10), Align::Calendar(UtcOffset::hours(2))),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ]
}

#[test]
fn retry_after_is_right_after_the_clock_stepped_back_a_day() {
    for rule in one_of_each() {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        gate.turn_back(Span::DAY);
        let retry = gate.take(10).expect_deny();
        gate.advance(retry);
        assert!(gate.take(10).is_allowed(), "{} had a retry_after of {retry}", rule.name());
    }
}

/// A step of up to the tolerance is waited out; beyond that, the key moves along and waits out the tolerance only.
#[test]
fn a_small_step_back_is_waited_out_and_a_large_one_costs_no_more() {
    for rule in one_of_each().into_iter().filter(|rule| !matches!(rule.algorithm(), AlgorithmSpec::FixedWindow { .. }))
    {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        let usual = gate.take(10).expect_deny();
        let retry_after_step = |step: Span| gate.clone().turn_back(step).take(10).expect_deny();
        assert_eq!(retry_after_step(Span::from_micros(1)), usual + Span::from_micros(1), "{}", rule.name());
        assert_eq!(retry_after_step(Span::SECOND), usual + Span::SECOND, "{}", rule.name());
        let slice = if rule.name() == "counter" { Span::from_secs(6) } else { Span::ZERO };
        for step in [Span::SECOND + Span::from_micros(1), Span::MINUTE, Span::DAY, Span::WEEK] {
            let moved = retry_after_step(step);
            let due = usual..=usual + Span::SECOND + slice;
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
        shaken.turn_back(Span::from_millis(800));
        assert_eq!(shaken.peek().remaining(), 6, "{}", rule.name());
        shaken.advance(Span::from_millis(800));
        for gate in [&mut steady, &mut shaken] {
            gate.advance(Span::from_secs(7)).take(1).expect_allow();
        }
        assert_eq!(steady.key_state, shaken.key_state, "{}", rule.name());
        assert_eq!(steady.peek(), shaken.peek(), "{}", rule.name());
    }
}

#[test]
fn a_denial_after_a_small_step_back_still_changes_nothing() {
    for rule in one_of_each() {
        let mut gate = Gate::new(rule);
        gate.take(10).expect_allow();
        gate.turn_back(Span::from_millis(900));
        let before = gate.key_state.clone();
        let step = gate.step((10, Take::now()));
        assert!(!step.changed && gate.key_state == before, "{step:?}");
    }
}

#[test]
fn a_block_is_not_longer_after_the_clock_went_back() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_minute(10)));
    let _ = gate.ask(Verb::Block { span: Span::MINUTE });
    gate.turn_back(Span::DAY);
    let retry = gate.take(1).expect_deny();
    assert!(retry <= Span::MINUTE + Span::SECOND, "{retry}");
    gate.advance(retry).take(1).expect_allow();
}
