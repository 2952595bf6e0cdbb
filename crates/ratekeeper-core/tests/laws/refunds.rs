//! Refunds by example: what is refunded, what counts as used, and which reservation it belonged to.

use std::time::Duration;

use ratekeeper_core::{LeaseId, Quota, Rule, Span, Take, Timestamp, Verb};
use ratekeeper_testkit::{
    gate::{Expect, Gate, START},
    random::{Kind, Random},
};

const SECOND: Span = Span::SECOND;
const LONG: Span = Span::HOUR;

/// The example of the design: capacity 1, one a second, reservations at 1 s and 2 s.
#[test]
fn cancelling_the_first_of_two_reservations_frees_nothing() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(1)));
    gate.take(1).expect_allow();
    assert_eq!(gate.take_within(1, LONG).expect_allow(), SECOND);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Span::from_secs(2));
    let _ = gate.refund(1, Some(gate.now + SECOND));
    // A new request is admitted after the reservation for the second second, not together with it.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Span::from_secs(3));
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
            let _ = gate.refund(limit, Some(gate.now + last.verdict.wait()));
            let next = gate.take_within(limit, LONG).expect_allow();
            // A bucket keeps the fraction of a microsecond it was rounded by.
            assert!(
                next <= last.verdict.wait() + Span::from_micros(1),
                "{rule:?}: {next} after {}",
                last.verdict.wait()
            );
            assert!(next >= first.verdict.wait(), "{rule:?}");
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
fn a_refund_of_a_past_take_counts_as_spent_in_a_bucket_with_a_reservation() {
    for rule in [
        Rule::token_bucket("r", Quota::per_second(1)),
        Rule::token_bucket_stepwise("r", Quota::per_second(1)),
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
fn the_log_returns_a_past_take_even_with_a_reservation() {
    let mut gate = Gate::new(Rule::sliding_log("r", Quota::per_second(2)));
    gate.take(2).expect_allow();
    let first = gate.now;
    gate.advance(Span::from_millis(100));
    let wait = gate.take_within(1, LONG).expect_allow();
    let _ = gate.refund(2, Some(first));
    // The two were never used; the waiter did not move, and one more fits.
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait);
    assert_eq!(gate.take_within(1, LONG).expect_allow(), wait + SECOND);
}

/// Without a time, the latest used permits are refunded, never those of a waiter.
#[test]
fn a_refund_without_a_moment_leaves_the_waiters_of_a_sliding_window_alone() {
    let quota = Quota::per_second(1);
    for rule in [Rule::sliding_log("r", quota), Rule::sliding_counter("r", quota)] {
        let mut gate = Gate::new(rule.clone());
        gate.take(1).expect_allow();
        let goes = gate.now + gate.take_within(1, LONG).expect_allow();
        gate.advance(Span::from_millis(500));
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
        let mut gate = Gate::new(rule.clone()).starting_at(Timestamp::from_secs(1_000));
        gate.take(3).expect_allow();
        gate.advance(Span::from_millis(200)).take(4).expect_allow();
        let second = gate.now;
        gate.advance(Span::from_millis(200)).take(2).expect_allow();
        assert_eq!(gate.refund(9, Some(second)).remaining(), 5, "{rule:?}");
        assert_eq!(gate.refund(9, Some(second)).remaining(), 5, "once is enough: {rule:?}");
        assert_eq!(gate.refund(9, Some(second - Span::from_millis(100))).remaining(), 5, "nothing went then: {rule:?}");
        assert_eq!(gate.refund(4, None).remaining(), 9, "the latest first, then those before: {rule:?}");
        // What is left of the oldest leaves with its own moment.
        assert!(gate.peek().reset_after_span() <= Span::from_millis(700), "{rule:?}");
    }
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_bucket() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(3).burst(1)));
    gate.take(1).expect_allow();
    let waits: Vec<Span> = (0..4).map(|_| gate.take_within(1, LONG).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    // Only the first take, the one that went, is left; a few fractions of a microsecond aside.
    let wait = gate.take(1).expect_deny();
    assert!(wait <= Span::from_micros(333_334 + 4), "{wait}");
}

#[test]
fn cancelling_from_the_back_returns_every_reservation_of_a_shaped_bucket() {
    let mut gate = Gate::new(Rule::leaky_bucket_shaped("r", Quota::per_second(10)));
    let waits: Vec<Span> = (0..4).map(|_| gate.take(1).expect_allow()).collect();
    for wait in waits.into_iter().rev() {
        let _ = gate.refund(1, Some(gate.now + wait));
    }
    assert_eq!(gate.peek().remaining(), 10);
}

#[test]
fn a_refund_from_an_ended_window_frees_nothing_in_this_one() {
    let mut gate = Gate::new(Rule::fixed_window("r", Quota::per_second(10))).starting_at(Timestamp::from_secs(1_000));
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
    let wait = gate.ask(Verb::Take(Take::within(LONG).with_lease(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Span::from_secs(10));
    gate.advance(Span::from_secs(5));
    let _ = gate.refund(1, None);
    gate.advance(Span::from_secs(5));
    // Number 2 passes now, as promised; no other request may.
    gate.hold(1, 3).expect_deny();
}

#[test]
fn a_heartbeat_does_not_outlive_a_promise_made_on_the_lease() {
    let mut gate = Gate::new(Rule::concurrency("r", 1, Duration::from_secs(10)));
    gate.hold(1, 1).expect_allow();
    let wait = gate.ask(Verb::Take(Take::within(LONG).with_lease(LeaseId(2)))).expect_allow();
    assert_eq!(wait, Span::from_secs(10));
    gate.advance(Span::from_secs(5));
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    gate.advance(Span::from_secs(5));
    // 2 begins now, so 1 no longer holds anything and its heartbeat fails.
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(1))).lease, None);
    assert_eq!(gate.ask(Verb::Heartbeat(LeaseId(2))).lease, Some(LeaseId(2)));
}

#[test]
fn max_wait_on_a_shaped_rule_bounds_the_whole_wait() {
    let mut gate = Gate::new(Rule::leaky_bucket_shaped("r", Quota::per_second(10).capacity(5)));
    for _ in 0..5 {
        gate.take(1).expect_allow();
    }
    let retry = gate.take_within(1, Span::ZERO).expect_deny();
    assert_eq!(retry, Span::from_millis(500));
    gate.advance(retry).take_within(1, Span::ZERO).expect_allow();
}

#[test]
fn a_past_take_is_never_the_latest_reservation() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_second(2).burst(3)));
    gate.take(3).expect_allow();
    gate.advance(Span::from_millis(400));
    // A tenth of a second is missing, much less than the half that a permit takes.
    let waits = gate.take_within(1, LONG).expect_allow();
    assert_eq!(waits, Span::from_millis(100));
    let _ = gate.refund(1, Some(gate.now));
    assert_eq!(gate.take_within(1, LONG).expect_allow(), Span::from_millis(600));
}

/// A counter knows its reservations only by the slice. When one of two in a slice is cancelled, the other still waits
/// until its time within the slice, and until then no permit that it depends on is returned.
#[test]
fn cancelling_one_of_two_in_a_slice_leaves_the_other_its_promise() {
    let counter = Rule::sliding_counter_with("counter", Quota::per_micros(6, Span::from_secs(10)), 3);
    let bucket = Rule::token_bucket("bucket", Quota::per_second(1).burst(5));
    // A slice of a third of ten seconds, rounded up, begins here.
    let start = Timestamp::from_micros(3_333_334 * 500_000_000);
    let mut gate = Gate::of([counter, bucket]).starting_at(start);
    gate.take(5).expect_allow();
    gate.advance(Span::from_secs(6));
    let first = gate.take_within(2, LONG).expect_allow();
    let second = gate.take_within(1, LONG).expect_allow();
    assert_eq!((first, second), (Span::from_micros(7_333_334), Span::from_micros(7_333_334)));
    let goes = gate.now + first;
    let _ = gate.refund(1, Some(goes));
    gate.advance(Span::from_secs(5));
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
    let decision = gate.ask((2, Verb::Undo { at: gate.now, lease: Some(LeaseId(2)) }));
    assert_eq!(decision.remaining(), 2);
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
        let _ = gate.ask((1, Verb::Undo { at: gate.now, lease: taken.lease }));
        assert_eq!(gate.peek().remaining(), rule.quota().burst_or_limit(), "{rule:?}");
    }
}
