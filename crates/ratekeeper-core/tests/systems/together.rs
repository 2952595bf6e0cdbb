//! Several rules at once, and holders at once.

use std::time::Duration;

use ratekeeper_core::{DecidedBy, Quota, Rule, Span, Verdict};
use ratekeeper_testkit::gate::{Expect, Gate};

use crate::secs;

// Section 7: several rules at once.

fn three_windows() -> Gate {
    Gate::of([
        Rule::sliding_log("ten", Quota::per_micros(100, secs(10))),
        Rule::fixed_window("hundred", Quota::per_micros(1_000, secs(100))),
        Rule::token_bucket("thousand", Quota::per_micros(10_000, secs(1_000))),
    ])
}

#[test]
fn three_rules_are_all_charged_when_all_pass() {
    let mut gate = three_windows();
    let decision = gate.take(40);
    decision.expect_allow();
    let reported: Vec<(u64, u64)> = decision.rules.iter().map(|rule| (rule.remaining, rule.limit)).collect();
    assert_eq!(reported, [(60, 100), (960, 1_000), (9_960, 10_000)]);
    assert_eq!(decision.decided_by, DecidedBy::Rule(0));
}

#[test]
fn three_rules_charge_nothing_when_one_refuses_and_the_others_tell_the_truth() {
    let mut gate = three_windows();
    gate.take(40).expect_allow();
    let before = gate.key_state.clone();
    let decision = gate.take(61);
    assert_eq!(decision.expect_deny(), secs(10));
    assert_eq!(gate.key_state, before, "nothing was charged");
    let verdicts: Vec<Verdict> = decision.rules.iter().map(|rule| rule.verdict).collect();
    let passes = Verdict::Allow { wait: Span::ZERO };
    assert_eq!(verdicts, [Verdict::Deny { retry_after: secs(10) }, passes, passes]);
    let remaining: Vec<u64> = decision.rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(remaining, [60, 960, 9_960]);
}

#[test]
fn three_rules_refused_by_never_charge_nothing_either() {
    let mut gate = three_windows();
    gate.take(101).expect_never();
    let remaining: Vec<u64> = gate.peek().rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(remaining, [100, 1_000, 10_000]);
}

// Section 8, the part that is the core's: at most N in flight, and a crashed holder does not block the key for ever.

#[test]
fn concurrency_releases_at_the_end_and_survives_a_crash() {
    let mut gate = Gate::new(Rule::concurrency("in flight", 2, Duration::from_secs(30)));
    gate.hold(1, 1).expect_allow();
    gate.hold(1, 2).expect_allow();
    assert_eq!(gate.hold(1, 3).expect_deny(), secs(30));
    let _ = gate.release(1);
    gate.hold(1, 3).expect_allow();
    // No heartbeat follows.
    gate.advance(secs(30)).hold(2, 4).expect_allow();
}
