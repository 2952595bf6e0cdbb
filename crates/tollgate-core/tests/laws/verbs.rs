//! The verbs besides take and refund: peek, settle, penalize, block, release, heartbeat, reset; and rules that only
//! watch.

use std::time::Duration;

use tollgate_core::{DecidedBy, LeaseId, Micros, Quota, Release, Rule, Take, Verb, Verdict};
use tollgate_testkit::{
    gate::{Expect, Gate},
    random::{Kind, Random},
};

const SECOND: Micros = Micros::SECOND;
const LONG: Micros = Micros::HOUR;

/// Every algorithm with ten permits a minute, or ten holders.
fn tens() -> Vec<Rule> {
    let quota = Quota::per_minute(10);
    vec![
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket("stepwise", quota).stepwise(),
        Rule::leaky_bucket("leaky", quota),
        Rule::leaky_bucket("shaped", quota).shaped(),
        Rule::fixed_window("window", quota),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ]
}

#[test]
fn a_peek_changes_nothing_and_tells_what_a_take_of_nothing_tells() {
    let mut random = Random::new(20);
    for kind in Kind::ALL {
        let rule = random.rule("r", kind);
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let before = gate.subject.clone();
        let peek = gate.step(Verb::Peek);
        assert!(!peek.changed && gate.subject == before, "{rule:?}");
        assert_eq!(peek.decision, gate.take(0), "{rule:?}");
        assert_eq!(gate.subject, before, "{rule:?}");
    }
}

#[test]
fn settling_for_less_gives_the_rest_back() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        let settled = gate.ask(Verb::Settle { reserved: 8, actual: 3, at: Some(gate.now) });
        assert_eq!(settled.remaining(), 7, "{rule:?}");
    }
}

#[test]
fn settling_for_more_charges_what_is_missing() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(3).expect_allow();
        let settled = gate.ask(Verb::Settle { reserved: 3, actual: 8, at: Some(gate.now) });
        assert_eq!(settled.remaining(), 2, "{rule:?}");
    }
}

#[test]
fn settling_for_the_same_changes_nothing() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(3).expect_allow();
        let before = gate.subject.clone();
        let step = gate.step(Verb::Settle { reserved: 3, actual: 3, at: Some(gate.now) });
        assert!(!step.changed && gate.subject == before, "{rule:?}");
    }
}

#[test]
fn a_settlement_never_heard_of_leaves_the_estimate_charged() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        assert_eq!(gate.peek().remaining(), 2, "{rule:?}");
    }
}

#[test]
fn settling_a_reservation_for_less_while_somebody_waits_behind_gives_nothing_back() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1).burst(2)));
    gate.take(2).expect_allow();
    let first = gate.take_within(2, LONG).expect_allow();
    let second = gate.take_within(2, LONG).expect_allow();
    let _ = gate.ask(Verb::Settle { reserved: 2, actual: 1, at: Some(gate.now + first) });
    assert_eq!(gate.take_within(1, LONG).expect_allow(), second + SECOND);
}

#[test]
fn a_penalty_is_charged_without_asking() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(8).expect_allow();
        let wait_before = gate.would(Verb::Take(Take::now(10)), gate.now).retry_after();
        let told = gate.ask(Verb::Penalize { cost: 5 });
        assert_eq!(told.remaining(), 0, "{rule:?}");
        gate.take(1).expect_deny();
        assert!(gate.take(10).retry_after() >= wait_before, "{rule:?}");
        let nothing = gate.step(Verb::Penalize { cost: 0 });
        assert!(!nothing.changed, "{rule:?}");
    }
}

#[test]
fn a_bucket_in_debt_pays_it_off_at_the_rate() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1).burst(10)));
    let _ = gate.ask(Verb::Penalize { cost: 15 });
    assert_eq!(gate.take(1).expect_deny(), Micros::from_secs(6));
    let mut lumps = Gate::new(Rule::token_bucket("r", Quota::per_second(5).burst(10)).stepwise());
    let _ = lumps.ask(Verb::Penalize { cost: 15 });
    assert_eq!(lumps.take(1).expect_deny(), Micros::from_secs(2));
}

#[test]
fn a_penalty_in_a_window_lasts_no_longer_than_the_window() {
    for rule in [
        Rule::fixed_window("r", Quota::per_second(10)),
        Rule::sliding_log("r", Quota::per_second(10)),
        Rule::concurrency("r", 10, Duration::from_secs(1)),
    ] {
        let mut gate = Gate::new(rule.clone()).starting_at(Micros::from_secs(1_000));
        let _ = gate.ask(Verb::Penalize { cost: 1_000_000 });
        gate.advance(SECOND - Micros(1)).take(1).expect_deny();
        gate.advance(Micros(1)).take(10).expect_allow();
    }
}

#[test]
fn however_large_a_penalty_numbers_stay_numbers() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        for _ in 0..3 {
            let _ = gate.ask(Verb::Penalize { cost: u64::MAX });
        }
        let told = gate.take(1);
        assert!(told.expect_deny() > Micros::ZERO, "{rule:?}");
        let _ = gate.refund(u64::MAX, None);
        let _ = gate.ask(Verb::Settle { reserved: 0, actual: u64::MAX, at: None });
        gate.take(1).expect_deny();
    }
}

#[test]
fn a_block_refuses_everything_until_it_ends_or_is_lifted() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(10)));
    let told = gate.ask(Verb::Block { span: SECOND });
    assert_eq!((told.verdict, told.decided_by), (Verdict::Deny { retry_after: SECOND }, DecidedBy::Block));
    let denied = gate.take_within(1, LONG);
    assert_eq!((denied.expect_deny(), denied.remaining(), denied.decided_by), (SECOND, 0, DecidedBy::Block));
    assert_eq!(denied.reset_after(), SECOND);
    gate.advance(SECOND - Micros(1)).take(1).expect_deny();
    gate.advance(Micros(1)).take(1).expect_allow();
    let _ = gate.ask(Verb::Block { span: LONG });
    gate.take(1).expect_deny();
    let _ = gate.ask(Verb::Block { span: Micros::ZERO });
    gate.take(1).expect_allow();
}

#[test]
fn behind_a_block_the_longer_of_the_two_waits_is_told() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1)));
    gate.take(1).expect_allow();
    let _ = gate.ask(Verb::Block { span: Micros::from_millis(500) });
    assert_eq!(gate.take(1).expect_deny(), SECOND);
    let _ = gate.ask(Verb::Block { span: Micros::from_secs(3) });
    assert_eq!(gate.take(1).expect_deny(), Micros::from_secs(3));
}

#[test]
fn a_reset_forgets_what_was_used_promised_and_blocked() {
    for rule in tens() {
        let mut gate = Gate::new(rule.clone());
        gate.take(10).expect_allow();
        let _ = gate.take_within(5, LONG);
        let _ = gate.ask(Verb::Block { span: LONG });
        let told = gate.ask(Verb::Reset);
        assert!(told.is_allowed(), "{rule:?}");
        assert_eq!((told.remaining(), told.reset_after()), (10, Micros::ZERO), "{rule:?}");
        assert_eq!(gate.subject, gate.policy.fresh(), "{rule:?}");
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
    let _ = gate.ask(Verb::Release(Release::Oldest(1)));
    assert_eq!(gate.peek().remaining(), 1);
    // The rest of the oldest ends at its own time; the younger one a second later.
    gate.advance(Micros::from_secs(9));
    assert_eq!(gate.peek().remaining(), 2);
    gate.advance(SECOND);
    assert_eq!(gate.peek().remaining(), 3);
}

#[test]
fn a_heartbeat_renews_a_lease_and_cannot_revive_one() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    gate.advance(Micros::from_secs(9));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    gate.advance(Micros::from_secs(10) - Micros(1)).hold(1, 2).expect_deny();
    gate.advance(Micros(1));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, None);
    gate.hold(1, 2).expect_allow();
}

#[test]
fn a_shadow_rule_counts_and_tells_but_refuses_nobody() {
    let watched = Rule::sliding_log("watched", Quota::per_second(2)).shadow(true);
    let mut gate = Gate::of([Rule::sliding_log("kept", Quota::per_second(5)), watched]);
    for cost in [1, 1] {
        gate.take(cost).expect_allow();
    }
    let third = gate.take(1);
    assert_eq!(third.expect_allow(), Micros::ZERO);
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
    let told = gate.take(5);
    told.expect_allow();
    assert_eq!(told.rules.len(), 1);
}
