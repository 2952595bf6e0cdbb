//! Rules that count refused requests, as the design states it: which rules are charged, how much, and the resulting numbers.

use std::time::Duration;

use ratekeeper_core::{
    Align, DecidedBy, Decision, Policy, Quota, Rule, Span, Take, Timestamp, Verb, Verdict,
    store_api::{KeyState, SingleBucket, take_all},
};
use ratekeeper_testkit::gate::{Expect, Gate};

fn remaining(decision: &Decision) -> Vec<u64> {
    decision.rules.iter().map(|rule| rule.remaining).collect()
}

/// Ten a minute, by every way of counting that can count refusals.
fn tens() -> [Rule; 8] {
    let quota = Quota::per_minute(10);
    [
        Rule::token_bucket("bucket", quota),
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky", quota),
        Rule::leaky_bucket_shaped("shaped", quota),
        Rule::fixed_window("window", quota),
        Rule::fixed_window_aligned("first request", quota, Align::FirstRequest),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
    ]
    .map(|rule| rule.count_refused(true))
}

/// Four left, five asked for: the four are charged, and then there is nothing left to charge.
#[test]
fn a_refused_take_is_charged_what_is_left_and_no_more() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(6).expect_allow();
        let refused = gate.step((5, Take::now()));
        refused.decision.expect_deny();
        assert_eq!((refused.decision.remaining(), refused.changed), (0, true), "{rule:?}");
        let again = gate.step((5, Take::now()));
        again.decision.expect_deny();
        assert_eq!((again.decision.remaining(), again.changed), (0, false), "{rule:?}");
    }
}

/// A key that is denied every second is free again within one period (and a slice) after the last denial.
#[test]
fn hammering_locks_a_key_for_one_period_at_most() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        for _ in 0..300 {
            gate.advance(Span::SECOND);
            let _ = gate.take(10);
        }
        gate.advance(Span::MINUTE + Span::from_millis(6_000)).take(10).expect_allow();
    }
}

/// In a fixed window that is the rest of the window, however long it was hammered.
#[test]
fn a_hammered_window_is_free_when_the_next_one_begins() {
    let mut gate = Gate::new(Rule::fixed_window("window", Quota::per_minute(10)).count_refused(true));
    gate.take(10).expect_allow();
    let ends = gate.take(1).expect_deny();
    for _ in 0..20 {
        gate.advance(Span::from_millis(100));
        gate.take(3).expect_deny();
    }
    gate.advance(ends - Span::from_millis(2_000)).take(10).expect_allow();
}

/// Rules with the flag are charged, whichever rule refused; the others are not. The numbers are those after the charge:
/// the day would let eight pass at once, but it was charged them, so that they pass when the next day begins.
#[test]
fn every_rule_with_the_flag_is_charged_and_no_other() {
    let mut gate = Gate::of([
        Rule::sliding_log("second", Quota::per_second(8)),
        Rule::fixed_window("day", Quota::per_day(10)).count_refused(true),
        Rule::fixed_window("hour", Quota::per_hour(100)),
    ]);
    gate.take(1).expect_allow();
    let refused = gate.take(8);
    assert_eq!(remaining(&refused), [7, 1, 99]);
    assert_eq!(refused.decided_by, DecidedBy::Rule(0));
    assert_eq!(refused.rules[0].verdict, Verdict::Deny { retry_after: Span::SECOND });
    assert_eq!(refused.rules[1].verdict, Verdict::Allow { wait: Span::ZERO }, "it would have let it pass");
    let retry = refused.expect_deny();
    assert_eq!(retry, refused.rules[1].reset_after);
    gate.would((8, Take::now()), gate.now + retry - Span::from_micros(1)).expect_deny();
    gate.would((8, Take::now()), gate.now + retry).expect_allow();
}

#[test]
fn a_cost_above_the_limit_is_never_and_takes_all_that_is_left() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        let never = gate.take(11);
        never.expect_never();
        assert_eq!(never.remaining(), 0, "{rule:?}");
    }
}

#[test]
fn a_block_refuses_and_the_refusal_is_counted() {
    let mut gate = Gate::new(Rule::fixed_window("hour", Quota::per_hour(10)).count_refused(true));
    let _ = gate.ask(Verb::Block { span: Span::SECOND });
    let refused = gate.take(7);
    assert_eq!((refused.decided_by, remaining(&refused)), (DecidedBy::Block, vec![3]));
    let retry = refused.expect_deny();
    assert!(retry > Span::SECOND, "after the block the window has three left, and seven are asked for");
    gate.would((7, Take::now()), gate.now + retry).expect_allow();
}

/// A caller who would have waited, but not so long, is refused like any other.
#[test]
fn a_wait_beyond_max_wait_is_counted_and_reserves_nothing() {
    let mut gate = Gate::new(Rule::token_bucket("bucket", Quota::per_minute(60)).count_refused(true));
    gate.take(50).expect_allow();
    let refused = gate.take_within(20, Span::SECOND);
    assert_eq!(refused.expect_deny(), Span::from_micros(20 * 1_000_000));
    assert_eq!((refused.remaining(), gate.key_state.promised), (0, Timestamp::EPOCH));
}

/// A look charges nothing; it passes while one is left.
#[test]
fn a_look_is_refused_when_nothing_is_left() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(9).expect_allow();
        assert_eq!(gate.take(0).expect_allow(), Span::ZERO, "{rule:?}");
        assert_eq!(gate.take(1).remaining(), 0);
        let before = gate.key_state.clone();
        let retry = gate.take(0).expect_deny();
        assert_eq!(gate.key_state, before);
        assert_eq!(
            gate.would((0, Take::now()), gate.now + retry - Span::from_micros(1)).expect_deny(),
            Span::from_micros(1)
        );
        gate.would((0, Take::now()), gate.now + retry).expect_allow();
        gate.peek().expect_allow();
    }
}

/// Look first, pay afterwards: 1000 an hour, 600 at a time.
#[test]
fn looking_first_and_paying_afterwards_is_enforced() {
    let mut gate = Gate::new(Rule::fixed_window("hour", Quota::per_hour(1_000)).count_refused(true));
    gate.take(0).expect_allow();
    gate.take(600).expect_allow();
    assert_eq!(gate.take(0).remaining(), 400);
    gate.take(600).expect_deny();
    gate.take(0).expect_deny();
}

/// A rule that only watches refuses no request and counts as it would if it were enforced.
#[test]
fn a_shadow_rule_counts_what_it_would_have_refused() {
    let hour = Rule::fixed_window("hour", Quota::per_hour(1_000)).shadow(true);
    let mut without = Gate::new(hour.clone());
    let mut counting = Gate::new(hour.count_refused(true));
    for gate in [&mut without, &mut counting] {
        gate.take(600).expect_allow();
        gate.take(600).expect_allow();
    }
    assert_eq!((without.peek().remaining(), counting.peek().remaining()), (400, 0));
    assert!(matches!(counting.take(0).rules[0].verdict, Verdict::Deny { .. }));
    counting.take(2_000).expect_allow();
}

#[test]
fn every_key_of_a_refused_request_is_charged_its_own_part() {
    let counting = Policy::new("a", [Rule::fixed_window("r", Quota::per_hour(10)).count_refused(true)]).unwrap();
    let other = Policy::new("b", [Rule::fixed_window("r", Quota::per_hour(10))]).unwrap();
    let mut key_states: [KeyState; 3] = [counting.fresh(), other.fresh(), counting.fresh()];
    let [a, b, c] = &mut key_states;
    let mut keys = [counting.request_key(a, 3), other.request_key(b, 11), counting.request_key(c, 0)];
    let step = take_all(&mut keys, &Take::now(), Timestamp::EPOCH + Span::DAY);
    step.decision.expect_never();
    assert_eq!(remaining(&step.decision), [7, 10, 10]);
}

#[test]
fn concurrency_has_no_use_for_it_and_says_so() {
    let error = Rule::concurrency("held", 2, Duration::from_secs(1)).count_refused(true).compile().unwrap_err();
    assert_eq!(error.problem.field, "count_refused");
    assert!(error.to_string().contains("a refused request holds nothing"), "{error}");
}

/// The fast path for a single bucket does not count refused requests, and is not used for such a rule.
#[test]
fn the_single_bucket_is_for_rules_without_it() {
    let bucket = |counts| {
        let rule = Rule::token_bucket("bucket", Quota::per_second(1)).count_refused(counts);
        SingleBucket::of(&Policy::new("policy", [rule]).unwrap()).is_some()
    };
    assert_eq!((bucket(false), bucket(true)), (true, false));
}
