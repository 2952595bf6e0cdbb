//! Fixed windows, and their edge compared with the sliding algorithms.

use ratekeeper_core::{Align, Quota, Rule, Span, Timestamp};
use ratekeeper_testkit::gate::{Expect, Gate};

use crate::{ms, secs};

// Section 5: fixed window.

#[test]
fn fixed_window_two_per_three_seconds_from_the_first_request() {
    let quota = Quota::per_micros(2, secs(3));
    let mut gate = Gate::new(Rule::fixed_window_aligned("window", quota, Align::FirstRequest));
    gate.take(1).expect_allow();
    gate.take(1).expect_allow();
    gate.take(1).expect_deny();
    gate.advance(secs(3));
    gate.take(1).expect_allow();
    gate.take(1).expect_allow();
    gate.advance(secs(2));
    gate.take(1).expect_deny();
}

#[test]
fn fixed_window_12_00_03_belongs_to_12_00_00() {
    let noon = Timestamp::from_secs(12 * 3_600);
    let mut gate = Gate::new(Rule::fixed_window("window", Quota::per_minute(2))).starting_at(noon + secs(3));
    let decision = gate.take(1);
    assert_eq!((decision.remaining(), decision.limit(), decision.reset_after_span()), (1, 2, secs(57)));
}

#[test]
fn fixed_window_is_not_renewed_by_hits_and_counts_no_refusals() {
    let mut gate = Gate::new(Rule::fixed_window_aligned("window", Quota::per_second(10), Align::FirstRequest));
    for _ in 0..10 {
        gate.take(1).expect_allow();
        gate.advance(ms(50));
    }
    for _ in 0..100 {
        gate.take(1).expect_deny();
    }
    gate.advance(ms(500)).take(10).expect_allow();
}

#[test]
fn fixed_window_admits_ten_of_ten_and_not_eleven() {
    let mut gate = Gate::new(Rule::fixed_window("window", Quota::per_hour(10)));
    let admitted = (0..20).filter(|_| gate.take(1).is_allowed()).count();
    assert_eq!(admitted, 10);
}

/// 200 requests at 18:59 and 240 at 19:00, under 240 per hour: what each form lets through within those two minutes.
fn admitted_around_seven(rule: Rule) -> u64 {
    let mut gate = Gate::new(rule).starting_at(Timestamp::from_secs(18 * 3_600 + 59 * 60));
    let early = (0..200).filter(|_| gate.take(1).is_allowed()).count();
    gate.advance(Span::MINUTE);
    let late = (0..240).filter(|_| gate.take(1).is_allowed()).count();
    (early + late) as u64
}

#[test]
fn fixed_window_edge_problem_440_within_two_minutes_against_the_sliding_forms() {
    let quota = Quota::per_hour(240);
    assert_eq!(admitted_around_seven(Rule::fixed_window("window", quota)), 440);
    assert_eq!(admitted_around_seven(Rule::sliding_log("log", quota)), 240);
    assert_eq!(admitted_around_seven(Rule::sliding_counter("counter", quota)), 240);
    // A bucket gains a minute's worth of permits on the way: four.
    assert_eq!(admitted_around_seven(Rule::token_bucket("bucket", quota)), 244);
}
