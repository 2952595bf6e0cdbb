//! Sliding windows: Redisson's limiter as our native log answers it, the log itself, and the counter.

use ratekeeper_core::{DecidedBy, Quota, Rule, Span, Timestamp};
use ratekeeper_testkit::gate::{Expect, Gate};

use crate::{ms, secs};

/// A gate whose clock shows exactly what the table says.
fn at_ms(gate: &mut Gate, millis: u64) -> &mut Gate {
    gate.now = Timestamp::from_millis(millis);
    gate
}

// Section 1: Redisson's limiter, as our native sliding log answers it.

#[test]
fn redisson_table_100_per_second_in_the_native_log() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(100)));

    let first = at_ms(&mut gate, 10_000).take(5);
    first.expect_allow();
    assert_eq!(first.remaining(), 95);

    let second = at_ms(&mut gate, 10_100).take(30);
    second.expect_allow();
    assert_eq!(second.remaining(), 65);

    // Redisson says 803 here and needs more rounds; 100 permits are free at 11100, not before.
    let third = at_ms(&mut gate, 10_200).take(100);
    assert_eq!(third.expect_deny(), ms(900));
    assert_eq!((third.remaining(), third.limit(), third.reset_after_span()), (65, 100, ms(900)));

    let fourth = at_ms(&mut gate, 11_200).take(50);
    fourth.expect_allow();
    assert_eq!(fourth.remaining(), 50);
}

#[test]
fn redisson_refusal_is_right_at_the_first_retry_and_not_before() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(100)));
    at_ms(&mut gate, 10_000).take(5).expect_allow();
    at_ms(&mut gate, 10_100).take(30).expect_allow();
    at_ms(&mut gate, 11_003).take(100).expect_deny();
    gate.now = Timestamp::from_millis(11_100) - Span::MICROSECOND;
    assert_eq!(gate.take(100).expect_deny(), Span::from_micros(1));
    at_ms(&mut gate, 11_100).take(100).expect_allow();
}

#[test]
fn redisson_ask_above_the_rate_is_never_instead_of_a_script_error() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(100)));
    gate.take(101).expect_never();
    assert_eq!(gate.peek().remaining(), 100);
}

#[test]
fn redisson_wait_longer_than_the_timeout_is_refused_at_once() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(100)));
    gate.take(100).expect_allow();
    gate.advance(ms(100));
    assert_eq!(gate.take_within(1, ms(899)).expect_deny(), ms(900));
    assert_eq!(gate.take_within(1, ms(900)).expect_allow(), ms(900));
}

// Section 2: sliding window log.

#[test]
fn sliding_log_one_per_second_and_five_per_minute() {
    let second = Rule::sliding_log("second", Quota::per_second(1));
    let mut gate = Gate::of([second, Rule::sliding_log("minute", Quota::per_minute(5))]);
    let start = 1_484_551_710;
    let mut ask = |offset: u64| {
        gate.now = Timestamp::from_secs(start + offset);
        let decision = gate.take(1);
        (decision.is_allowed(), decision.decided_by)
    };
    assert!(ask(0).0);
    assert_eq!(ask(0), (false, DecidedBy::Rule(0)), "refused by 1/s");
    for offset in 1..=4 {
        assert!(ask(offset).0, "…71{offset}");
    }
    assert_eq!(ask(5), (false, DecidedBy::Rule(1)), "refused by 5/min");
    assert!(ask(66).0, "…776");
}

#[test]
fn sliding_log_grants_around_half_past_twelve() {
    let clock = |minute: u64, second: u64| Timestamp::from_secs(12 * 3_600 + minute * 60 + second);
    let second = Rule::sliding_log("second", Quota::per_second(1));
    let mut gate = Gate::of([second, Rule::sliding_log("minute", Quota::per_minute(5))]);
    for grant in [clock(33, 35), clock(33, 37), clock(34, 14), clock(34, 26), clock(34, 28)] {
        gate.now = grant;
        gate.take(1).expect_allow();
    }
    gate.now = clock(34, 31);
    assert_eq!(gate.take(1).expect_deny(), secs(4));
    gate.now = clock(34, 40);
    gate.take(1).expect_allow();
}

#[test]
fn sliding_log_entry_exactly_one_window_old_no_longer_counts() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(1)));
    gate.take(1).expect_allow();
    gate.advance(Span::SECOND - Span::MICROSECOND).take(1).expect_deny();
    gate.advance(Span::from_micros(1)).take(1).expect_allow();
}

#[test]
fn sliding_log_grants_within_one_tick_all_count() {
    let mut gate = Gate::new(Rule::sliding_log("log", Quota::per_second(3)));
    for _ in 0..3 {
        gate.take(1).expect_allow();
    }
    assert_eq!(gate.take(1).expect_deny(), Span::SECOND);
}

// Section 6: sliding window counter.

#[test]
fn sliding_counter_counts_every_slice_that_overlaps_the_window() {
    // Ten slices of 100 ms. Ten permits at the very end of a slice…
    let mut gate =
        Gate::new(Rule::sliding_counter("counter", Quota::per_second(10))).starting_at(Timestamp::from_millis(5_099));
    gate.take(10).expect_allow();
    // …still count one window later, where counting only whole recent slices would have let ten more pass.
    gate.advance(ms(999));
    assert_eq!(gate.take(1).expect_deny(), ms(2));
    gate.advance(ms(2)).take(10).expect_allow();
}

#[test]
fn sliding_counter_misses_at_most_what_arrived_in_one_slice() {
    // At the very start of a slice the permits count for a whole slice longer than the window: the stated slack.
    let mut gate =
        Gate::new(Rule::sliding_counter("counter", Quota::per_second(10))).starting_at(Timestamp::from_millis(5_000));
    gate.take(4).expect_allow();
    gate.advance(ms(100)).take(6).expect_allow();
    gate.advance(ms(900));
    assert_eq!(gate.peek().remaining(), 0, "one window later the first slice still counts");
    gate.advance(ms(100));
    assert_eq!(gate.peek().remaining(), 4, "one slice later it does not, and only the second does");
    assert_eq!(gate.peek().reset_after_span(), ms(100));
}
