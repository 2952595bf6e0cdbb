//! Giving back, told as stories: what comes back, what counts as spent, and whose place it is.

use std::time::Duration;

use tollgate_core::{LeaseId, Micros, Quota, Rule, Take, Verb};
use tollgate_testkit::{
    gate::{Expect, Gate, START},
    random::{Kind, Random},
};

const SECOND: Micros = Micros::SECOND;
const LONG: Micros = Micros::HOUR;

/// The example of the design: capacity 1, one a second, reservations at 1 s and 2 s.
#[test]
fn cancelling_the_first_of_two_reservations_gives_nobody_its_place() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1)));
    gate.take(1).expect_allow();
    assert_eq!(gate.take_within(1, LONG).expect_allow(), SECOND);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_secs(2));
    let _ = gate.refund(1, Some(gate.now + SECOND));
    // A newcomer goes behind the one who waits for the second second, not together with it.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_secs(3));
}

#[test]
fn cancelling_the_last_reservation_gives_its_place_to_the_next() {
    let mut random = Random::new(10);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let rule = random.rule("r", kind);
            let mut gate = Gate::new(rule.clone());
            let limit = rule.quota().burst_or_limit();
            gate.take(limit).expect_allow();
            let first = gate.take_within(limit, LONG);
            let last = gate.take_within(limit, LONG);
            let (true, true) = (first.is_allowed(), last.is_allowed()) else { continue };
            let _ = gate.refund(limit, Some(gate.now + last.wait()));
            let next = gate.take_within(limit, LONG).expect_allow();
            // A bucket keeps the fraction of a microsecond it was rounded by.
            assert!(next <= last.wait() + Micros(1), "{rule:?}: {next} after {}", last.wait());
            assert!(next >= first.wait(), "{rule:?}");
        }
    }
}

#[test]
fn a_refund_never_lifts_a_key_above_full() {
    for kind in Kind::ALL {
        let rule = Random::new(11).rule("r", kind);
        let limit = rule.quota().burst_or_limit();
        let mut gate = Gate::new(rule.clone());
        let _ = gate.refund(limit, None);
        gate.take(1).expect_allow();
        let _ = gate.refund(10 * limit, None);
        assert_eq!(gate.peek().remaining(), limit, "{rule:?}");
        gate.take(limit).expect_allow();
        assert_eq!(gate.peek().remaining(), 0, "{rule:?}");
    }
}

#[test]
fn a_refund_at_once_undoes_the_take() {
    for kind in Kind::ALL {
        let rule = Random::new(12).rule("r", kind);
        let limit = rule.quota().burst_or_limit();
        for at in [None, Some(START)] {
            let mut gate = Gate::new(rule.clone());
            gate.take(limit).expect_allow();
            let _ = gate.refund(limit, at);
            assert_eq!(gate.peek().remaining(), limit, "{rule:?}");
        }
    }
}

#[test]
fn a_refund_of_a_past_take_while_somebody_waits_counts_as_spent_in_a_bucket() {
    for rule in [
        Rule::token_bucket("r", Quota::per_second(1)),
        Rule::token_bucket("r", Quota::per_second(1)).stepwise(),
        Rule::leaky_bucket("r", Quota::per_second(1)),
        Rule::fixed_window("r", Quota::per_second(1)),
    ] {
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let waits = gate.take_within(1, LONG).expect_allow();
        let _ = gate.refund(1, None);
        let _ = gate.refund(1, Some(gate.now));
        let behind = gate.take_within(1, LONG).expect_allow();
        assert_eq!(behind - waits, SECOND, "{rule:?}");
    }
}

#[test]
fn the_log_returns_a_past_take_even_while_somebody_waits() {
    let mut gate = Gate::new(Rule::sliding_log("r", Quota::per_second(2)));
    gate.take(2).expect_allow();
    let first = gate.now;
    gate.advance(Micros::from_millis(100));
    let wait = gate.take_within(1, LONG).expect_allow();
    let _ = gate.refund(2, Some(first));
    // The two never went; the waiter did not move, and one more fits beside it.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait + SECOND);
}

/// Without a moment, it is the latest already gone that comes back, never the place of somebody who waits.
#[test]
fn a_refund_without_a_moment_leaves_the_waiters_of_a_sliding_window_alone() {
    let quota = Quota::per_second(1);
    for rule in [Rule::sliding_log("r", quota), Rule::sliding_counter("r", quota)] {
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let goes = gate.now + gate.take_within(1, LONG).expect_allow();
        gate.advance(Micros::from_millis(500));
        let _ = gate.refund(1, None);
        let behind = gate.now + gate.take_within(1, LONG).expect_allow();
        assert!(behind >= goes + SECOND, "{rule:?}: {behind} after {goes}");
    }
}

/// With a moment, only what went at that moment comes back, however much is claimed.
#[test]
fn a_refund_of_more_than_went_at_a_moment_returns_what_did() {
    let quota = Quota::per_second(10);
    for rule in [Rule::sliding_log("r", quota), Rule::sliding_counter("r", quota)] {
        let mut gate = Gate::new(rule.clone()).starting_at(Micros::from_secs(1_000));
        gate.take(3).expect_allow();
        gate.advance(Micros::from_millis(200)).take(4).expect_allow();
        let second = gate.now;
        gate.advance(Micros::from_millis(200)).take(2).expect_allow();
        assert_eq!(gate.refund(9, Some(second)).remaining(), 5, "{rule:?}");
        assert_eq!(gate.refund(9, Some(second)).remaining(), 5, "once is enough: {rule:?}");
        assert_eq!(
            gate.refund(9, Some(second - Micros::from_millis(100))).remaining(),
            5,
            "nothing went then: {rule:?}"
        );
        assert_eq!(gate.refund(4, None).remaining(), 9, "the latest first, then those before: {rule:?}");
        // What is left of the oldest leaves with its own moment.
        assert!(gate.peek().reset_after() <= Micros::from_millis(700), "{rule:?}");
    }
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_bucket() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(3).burst(1)));
    gate.take(1).expect_allow();
    let waits: Vec<Micros> = (0..4).map(|_| gate.take_within(1, LONG).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    // Only the first take, the one that went, is left; a few fractions of a microsecond aside.
    let wait = gate.take(1).expect_deny();
    assert!(wait <= Micros(333_334 + 4), "{wait}");
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_shaped_bucket() {
    let mut gate = Gate::new(Rule::leaky_bucket("r", Quota::per_second(10)).shaped());
    let waits: Vec<Micros> = (0..4).map(|_| gate.take(1).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    assert_eq!(gate.peek().remaining(), 10);
}

#[test]
fn a_refund_from_an_ended_window_frees_nothing_in_this_one() {
    let mut gate = Gate::new(Rule::fixed_window("r", Quota::per_second(10))).starting_at(Micros::from_secs(1_000));
    gate.take(5).expect_allow();
    let first = gate.now;
    gate.advance(SECOND).take(5).expect_allow();
    let _ = gate.refund(5, Some(first));
    assert_eq!(gate.peek().remaining(), 5);
}

#[test]
fn a_refund_without_a_moment_leaves_the_waiting_holder_its_place() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    let wait = gate.ask(Verb::Take(Take::within(1, LONG).held_as(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Micros::from_secs(10));
    gate.advance(Micros::from_secs(5));
    let _ = gate.refund(1, None);
    gate.advance(Micros::from_secs(5));
    // Number 2 goes now, as promised; nobody else may.
    gate.hold(1, 3).expect_deny();
}

#[test]
fn a_heartbeat_does_not_outlive_a_promise_made_on_the_lease() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    let wait = gate.ask(Verb::Take(Take::within(1, LONG).held_as(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Micros::from_secs(10));
    gate.advance(Micros::from_secs(5));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    gate.advance(Micros::from_secs(5));
    // 2 begins now; so 1 must no longer hold anything, and is told so.
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, None);
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(2))).lease, Some(LeaseId(2)));
}

#[test]
fn a_deadline_on_a_shaped_rule_is_told_the_whole_wait() {
    let mut gate = Gate::new(Rule::leaky_bucket("r", Quota::per_second(10).capacity(5)).shaped());
    for _ in 0..5 {
        gate.take(1).expect_allow();
    }
    let retry = gate.take_within(1, Micros::ZERO).expect_deny();
    assert_eq!(retry, Micros::from_millis(500));
    gate.advance(retry).take_within(1, Micros::ZERO).expect_allow();
}

#[test]
fn a_take_that_has_gone_is_not_last_in_line_however_close_somebody_waits() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(2).burst(3)));
    gate.take(3).expect_allow();
    gate.advance(Micros::from_millis(400));
    // A tenth of a second is missing, much less than the half that a permit takes.
    let waits = gate.take_within(1, LONG).expect_allow();
    assert_eq!(waits, Micros::from_millis(100));
    let _ = gate.refund(1, Some(gate.now));
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Micros::from_millis(600));
}

/// A counter knows its reservations only by the slice. When one of two in a slice is cancelled, the other still waits
/// until its moment within the slice, and until then nothing under it may be given back.
#[test]
fn cancelling_one_of_two_in_a_slice_leaves_the_other_its_promise() {
    let counter = Rule::sliding_counter("counter", Quota::per_micros(6, Micros::from_secs(10))).buckets(3);
    let bucket = Rule::token_bucket("bucket", Quota::per_second(1).burst(5));
    // A slice of a third of ten seconds, rounded up, begins here.
    let start = Micros(3_333_334 * 500_000_000);
    let mut gate = Gate::of([counter, bucket]).starting_at(start);
    gate.take(5).expect_allow();
    gate.advance(Micros::from_secs(6));
    let first = gate.take_within(2, LONG).expect_allow();
    let second = gate.take_within(1, LONG).expect_allow();
    assert_eq!((first, second), (Micros(7_333_334), Micros(7_333_334)));
    let goes = gate.now + first;
    let _ = gate.refund(1, Some(goes));
    gate.advance(Micros::from_secs(5));
    let _ = gate.refund(5, Some(start));
    // Two go now, as promised, so the bucket of five has three left for this moment.
    let mut gate = gate.starting_at(goes);
    gate.take(4).expect_deny();
    gate.take(3).expect_allow();
}

/// A moment does not tell two holders apart; a name does.
#[test]
fn undoing_a_take_by_name_leaves_the_other_holder_of_that_moment_alone() {
    let mut gate = Gate::new(Rule::concurrency("r", 5, Duration::from_secs(10)));
    gate.hold(3, 1).expect_allow();
    gate.hold(2, 2).expect_allow();
    let told = gate.ask(Verb::Undo { cost: 2, at: gate.now, lease: Some(LeaseId(2)) });
    assert_eq!(told.remaining(), 2);
    assert_eq!(gate.release(1).lease, Some(LeaseId(1)));
    assert_eq!(gate.peek().remaining(), 5);
}

/// Whatever the algorithm, a take undone at once has not happened.
#[test]
fn undoing_a_take_at_once_returns_it() {
    for kind in Kind::ALL {
        let rule = Random::new(13).rule("r", kind);
        let mut gate = Gate::new(rule.clone());
        let taken = gate.hold(1, 4);
        let _ = gate.ask(Verb::Undo { cost: 1, at: gate.now, lease: taken.lease });
        assert_eq!(gate.peek().remaining(), rule.quota().burst_or_limit(), "{rule:?}");
    }
}
