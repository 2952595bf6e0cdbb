//! The verbs other than take and refund: peek, settle, penalize, block, release, heartbeat, reset; and shadow rules.

use std::time::Duration;

use ratekeeper_core::{DecidedBy, LeaseId, Quota, Release, Rule, Span, Take, Timestamp, Verb, Verdict};
use ratekeeper_testkit::{
    gate::{Expect, Gate},
    random::{Kind, Random},
};

const SECOND: Span = Span::SECOND;
const LONG: Span = Span::HOUR;

/// Every algorithm with ten permits a minute, or ten holders.
fn tens() -> Vec<Rule> {
    let quota = Quota::per_minute(10);
    vec![
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky", quota),
        Rule::leaky_bucket_shaped("shaped", quota),
        Rule::fixed_window("window", quota),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ]
}

#[test]
fn a_peek_changes_nothing_and_equals_a_take_of_zero() {
    let mut random = Random::new(20);
    for kind in Kind::ALL {
        let rule = random.rule("r", kind);
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let before = gate.key_state.clone();
        let peek = gate.step(Verb::Peek);
        assert!(!peek.changed && gate.key_state == before, "{rule:?}");
        assert_eq!(peek.decision, gate.take(0), "{rule:?}");
        assert_eq!(gate.key_state, before, "{rule:?}");
    }
}

#[test]
fn settling_for_less_gives_the_rest_back() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        let settled = gate.ask((8, Verb::Settle { actual: 3, at: Some(gate.now) }));
        assert_eq!(settled.remaining(), 7, "{rule:?}");
    }
}

#[test]
fn settling_for_more_charges_what_is_missing() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(3).expect_allow();
        let settled = gate.ask((3, Verb::Settle { actual: 8, at: Some(gate.now) }));
        assert_eq!(settled.remaining(), 2, "{rule:?}");
    }
}

#[test]
fn settling_for_the_same_changes_nothing() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(3).expect_allow();
        let before = gate.key_state.clone();
        let step = gate.step((3, Verb::Settle { actual: 3, at: Some(gate.now) }));
        assert!(!step.changed && gate.key_state == before, "{rule:?}");
    }
}

#[test]
fn a_reservation_without_settlement_stays_charged_as_estimated() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        assert_eq!(gate.peek().remaining(), 2, "{rule:?}");
    }
}

#[test]
fn settling_for_less_returns_nothing_before_a_later_reservation() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1).burst(2)));
    gate.take(2).expect_allow();
    let first = gate.take_within(2, LONG).expect_allow();
    let second = gate.take_within(2, LONG).expect_allow();
    let _ = gate.ask((2, Verb::Settle { actual: 1, at: Some(gate.now + first) }));
    assert_eq!(gate.take_within(1, LONG).expect_allow(), second + SECOND);
}

#[test]
fn a_penalty_is_charged_without_asking() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        let wait_before = gate.would((10, Take::now()), gate.now).verdict.retry_after_span();
        let decision = gate.ask((5, Verb::Penalize));
        assert_eq!(decision.remaining(), 0, "{rule:?}");
        gate.take(1).expect_deny();
        assert!(gate.take(10).verdict.retry_after_span() >= wait_before, "{rule:?}");
        let nothing = gate.step((0, Verb::Penalize));
        assert!(!nothing.changed, "{rule:?}");
    }
}

#[test]
fn a_bucket_in_debt_pays_it_off_at_the_rate() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1).burst(10)));
    let _ = gate.ask((15, Verb::Penalize));
    assert_eq!(gate.take(1).expect_deny(), Span::from_secs(6));
    let mut lumps = Gate::new(Rule::token_bucket_stepwise("r", Quota::per_second(5).burst(10)));
    let _ = lumps.ask((15, Verb::Penalize));
    assert_eq!(lumps.take(1).expect_deny(), Span::from_secs(2));
}

#[test]
fn a_penalty_in_a_window_lasts_no_longer_than_the_window() {
    for rule in [
        Rule::fixed_window("r", Quota::per_second(10)),
        Rule::sliding_log("r", Quota::per_second(10)),
        Rule::concurrency("r", 10, Duration::from_secs(1)),
    ] {
        let mut gate = Gate::new(rule.clone()).starting_at(Timestamp::from_secs(1_000));
        let _ = gate.ask((1_000_000, Verb::Penalize));
        gate.advance(SECOND - Span::from_micros(1)).take(1).expect_deny();
        gate.advance(Span::from_micros(1)).take(10).expect_allow();
    }
}

#[test]
fn however_large_a_penalty_numbers_stay_numbers() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        for _ in 0..3 {
            let _ = gate.ask((u64::MAX, Verb::Penalize));
        }
        let decision = gate.take(1);
        assert!(decision.expect_deny() > Span::ZERO, "{rule:?}");
        let _ = gate.refund(u64::MAX, None);
        let _ = gate.ask((0, Verb::Settle { actual: u64::MAX, at: None }));
        gate.take(1).expect_deny();
    }
}

#[test]
fn a_block_refuses_everything_until_it_ends_or_is_lifted() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(10)));
    let decision = gate.ask(Verb::Block { span: SECOND });
    assert_eq!((decision.verdict, decision.decided_by), (Verdict::Deny { retry_after: SECOND }, DecidedBy::Block));
    let denied = gate.take_within(1, LONG);
    assert_eq!((denied.expect_deny(), denied.remaining(), denied.decided_by), (SECOND, 0, DecidedBy::Block));
    assert_eq!(denied.reset_after_span(), SECOND);
    gate.advance(SECOND - Span::from_micros(1)).take(1).expect_deny();
    gate.advance(Span::from_micros(1)).take(1).expect_allow();
    let _ = gate.ask(Verb::Block { span: LONG });
    gate.take(1).expect_deny();
    let _ = gate.ask(Verb::Block { span: Span::ZERO });
    gate.take(1).expect_allow();
}

#[test]
fn a_blocked_key_reports_the_longer_of_two_waits() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1)));
    gate.take(1).expect_allow();
    let _ = gate.ask(Verb::Block { span: Span::from_millis(500) });
    assert_eq!(gate.take(1).expect_deny(), SECOND);
    let _ = gate.ask(Verb::Block { span: Span::from_secs(3) });
    assert_eq!(gate.take(1).expect_deny(), Span::from_secs(3));
}

#[test]
fn a_reset_forgets_what_was_used_promised_and_blocked() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        let _ = gate.take_within(5, LONG);
        let _ = gate.ask(Verb::Block { span: LONG });
        let decision = gate.ask(Verb::Reset);
        assert!(decision.is_allowed(), "{rule:?}");
        assert_eq!((decision.remaining(), decision.reset_after_span()), (10, Span::ZERO), "{rule:?}");
        assert_eq!(gate.key_state, gate.policy.fresh(), "{rule:?}");
    }
}

#[test]
fn a_released_lease_frees_its_permits_at_once_and_only_once() {
    let mut gate = Gate::new(Rule::concurrency("r", 3, Duration::from_secs(10)));
    assert_eq!(gate.hold(2, 7).lease, Some(LeaseId(7)));
    gate.hold(1, 8).expect_allow();
    gate.hold(1, 9).expect_deny();
    let released = gate.release(7);
    assert_eq!((released.lease, released.remaining()), (Some(LeaseId(7)), 2));
    let again = gate.release(7);
    assert_eq!((again.lease, again.remaining()), (None, 2));
}

#[test]
fn releasing_the_oldest_lets_go_of_those_that_would_end_first() {
    let mut gate = Gate::new(Rule::concurrency("r", 3, Duration::from_secs(10)));
    gate.hold(2, 1).expect_allow();
    gate.advance(SECOND).hold(1, 2).expect_allow();
    let _ = gate.ask(Verb::Release(Release::Oldest));
    assert_eq!(gate.peek().remaining(), 1);
    // The rest of the oldest ends at its own time; the younger one a second later.
    gate.advance(Span::from_secs(9));
    assert_eq!(gate.peek().remaining(), 2);
    gate.advance(SECOND);
    assert_eq!(gate.peek().remaining(), 3);
}

#[test]
fn a_heartbeat_renews_a_lease_and_cannot_revive_one() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    gate.advance(Span::from_secs(9));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    gate.advance(Span::from_secs(10) - Span::from_micros(1)).hold(1, 2).expect_deny();
    gate.advance(Span::from_micros(1));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, None);
    gate.hold(1, 2).expect_allow();
}

#[test]
fn a_shadow_rule_counts_and_reports_but_denies_nothing() {
    let watched = Rule::sliding_log("watched", Quota::per_second(2)).shadow(true);
    let mut gate = Gate::of([Rule::sliding_log("kept", Quota::per_second(5)), watched]);
    for cost in [1, 1] {
        gate.take(cost).expect_allow();
    }
    let third = gate.take(1);
    assert_eq!(third.expect_allow(), Span::ZERO);
    assert_eq!(third.rules[1].verdict, Verdict::Deny { retry_after: SECOND });
    assert_eq!((third.rules[1].remaining, third.rules[0].remaining), (0, 2));
    assert_eq!(third.decided_by, DecidedBy::Rule(0), "an enforcing rule speaks before any shadow");
    // Too much for the shadow alone is no reason for never either.
    gate.advance(SECOND).take(3).expect_allow();
    assert_eq!(gate.peek().rules[1].remaining, 2, "what the shadow would have refused it does not count");
}

#[test]
fn a_rule_that_is_not_enabled_takes_no_part() {
    let off = Rule::sliding_log("off", Quota::per_second(1)).enabled(false);
    let mut gate = Gate::of([Rule::sliding_log("on", Quota::per_second(5)), off]);
    let decision = gate.take(5);
    decision.expect_allow();
    assert_eq!(decision.rules.len(), 1);
}
