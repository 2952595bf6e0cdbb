//! Migration of a key to a changed quota: keep, scale, or start in the initial state.

use std::time::Duration;

use ratekeeper_core::{Align, OnQuotaChange, Quota, Rule, Span, Take};
use ratekeeper_testkit::gate::{Expect, Gate};

const LONG: Span = Span::HOUR;

/// An algorithm with this many permits a minute.
type Making = fn(u64) -> Rule;

/// All algorithms except concurrency.
const COUNTING: [Making; 8] = [
    |limit| Rule::token_bucket("r", Quota::per_minute(limit)),
    |limit| Rule::token_bucket_stepwise("r", Quota::per_minute(limit)),
    |limit| Rule::leaky_bucket("r", Quota::per_minute(limit)),
    |limit| Rule::leaky_bucket_shaped("r", Quota::per_minute(limit)),
    |limit| Rule::fixed_window("r", Quota::per_minute(limit)),
    |limit| Rule::fixed_window_aligned("r", Quota::per_minute(limit), Align::FirstRequest),
    |limit| Rule::sliding_log("r", Quota::per_minute(limit)),
    |limit| Rule::sliding_counter("r", Quota::per_minute(limit)),
];

/// Four of ten used; what remains of `limit` after the change.
fn remaining_after(making: Making, limit: u64, how: OnQuotaChange) -> u64 {
    let mut gate = Gate::new(making(10));
    gate.take(4).expect_allow();
    gate.change([making(limit)], how).peek().remaining()
}

#[test]
fn kept_what_is_used_stays_used() {
    for making in COUNTING {
        let rule = making(10);
        assert_eq!(remaining_after(making, 20, OnQuotaChange::Keep), 16, "a raised limit helps at once: {rule:?}");
        assert_eq!(remaining_after(making, 5, OnQuotaChange::Keep), 1, "a lowered one bites at once: {rule:?}");
        assert_eq!(remaining_after(making, 3, OnQuotaChange::Keep), 0, "even below what is used: {rule:?}");
    }
}

#[test]
fn scaled_it_keeps_its_share_rounded_up() {
    for making in COUNTING {
        let rule = making(10);
        assert_eq!(remaining_after(making, 20, OnQuotaChange::Scale), 12, "{rule:?}");
        assert_eq!(remaining_after(making, 5, OnQuotaChange::Scale), 3, "{rule:?}");
        assert_eq!(remaining_after(making, 3, OnQuotaChange::Scale), 1, "4 of 10 is 1.2 of 3, so 2: {rule:?}");
    }
}

#[test]
fn afresh_nothing_is_used() {
    for making in COUNTING {
        assert_eq!(remaining_after(making, 20, OnQuotaChange::Fresh), 20, "{:?}", making(10));
        assert_eq!(remaining_after(making, 3, OnQuotaChange::Fresh), 3, "{:?}", making(10));
    }
}

#[test]
fn the_same_quota_again_changes_nothing() {
    for making in COUNTING {
        let mut gate = Gate::new(making(10));
        gate.take(4).expect_allow();
        let before = gate.key_state.clone();
        gate.change([making(10)], OnQuotaChange::Keep);
        assert_eq!(gate.key_state, before, "{:?}", making(10));
    }
}

/// Whatever the old state was, the key returns to its initial state within a bound.
#[test]
fn after_any_change_a_key_recovers_within_the_windows_it_owes() {
    for old in COUNTING {
        for new in COUNTING {
            for how in [OnQuotaChange::Keep, OnQuotaChange::Scale, OnQuotaChange::Fresh] {
                let mut gate = Gate::new(old(10));
                gate.take(10).expect_allow();
                gate.change([new(3)], how);
                assert!(gate.peek().remaining() <= 3);
                let retry = gate.would((3, Take::now()), gate.now).verdict.retry_after_span().unwrap();
                assert!(retry <= Span::from_secs(240), "{:?} to {:?} {how:?}: {retry}", old(10), new(3));
                gate.advance(retry).take(3).expect_allow();
            }
        }
    }
}

#[test]
fn kept_a_full_key_admits_nothing_whatever_counts_from_now_on() {
    for old in COUNTING {
        for new in COUNTING {
            let mut gate = Gate::new(old(10));
            gate.take(10).expect_allow();
            gate.change([new(10)], OnQuotaChange::Keep);
            assert_eq!(gate.peek().remaining(), 0, "{:?} to {:?}", old(10), new(10));
        }
    }
}

#[test]
fn an_elapsed_part_is_not_charged_again() {
    for making in COUNTING {
        let mut gate = Gate::new(making(10));
        gate.take(10).expect_allow();
        gate.advance(LONG).change([making(20)], OnQuotaChange::Keep);
        assert_eq!(gate.peek().remaining(), 20, "{:?}", making(10));
        assert_eq!(gate.peek().reset_after_span(), Span::ZERO, "{:?}", making(10));
    }
}

#[test]
fn reservations_survive_a_change_and_keep_their_order() {
    for making in COUNTING {
        let mut gate = Gate::new(making(10));
        gate.take(10).expect_allow();
        let waits = gate.take_within(10, LONG).expect_allow();
        gate.change([making(9)], OnQuotaChange::Keep);
        let behind = gate.take_within(9, LONG).expect_allow();
        assert!(behind >= waits, "{:?}: {behind} before {waits}", making(10));
    }
}

#[test]
fn scaling_the_log_forgets_what_has_left_the_window_first() {
    let mut gate = Gate::new(Rule::sliding_log("r", Quota::per_second(2)));
    gate.take(1).expect_allow();
    gate.advance(Span::from_millis(600)).take(1).expect_allow();
    gate.advance(Span::from_millis(600));
    assert_eq!(gate.peek().remaining(), 1);
    gate.change([Rule::sliding_log("r", Quota::per_second(1))], OnQuotaChange::Scale);
    assert_eq!(gate.peek().remaining(), 0, "half of two is one of one");
}

#[test]
fn a_counter_with_other_slices_lets_nothing_leave_early() {
    let with = |buckets| Rule::sliding_counter_with("r", Quota::per_second(10), buckets);
    for (old, new) in [(10, 3), (3, 10), (1, 7), (7, 1)] {
        let mut gate = Gate::new(with(old));
        gate.take(10).expect_allow();
        gate.change([with(new)], OnQuotaChange::Keep);
        gate.advance(Span::SECOND - Span::from_micros(1)).take(1).expect_deny();
    }
}

#[test]
fn holders_keep_what_they_hold_for_no_longer_than_the_new_lease() {
    let with = |limit, seconds| Rule::concurrency("r", limit, Duration::from_secs(seconds));
    for how in [OnQuotaChange::Keep, OnQuotaChange::Scale] {
        let mut gate = Gate::new(with(10, 60));
        gate.hold(4, 1).expect_allow();
        gate.change([with(20, 60)], how);
        assert_eq!(gate.peek().remaining(), 16);
        gate.change([with(3, 5)], how);
        assert_eq!(gate.take(1).expect_deny(), Span::from_secs(5));
    }
}

#[test]
fn holding_and_having_used_are_not_carried_into_each_other() {
    let holders = Rule::concurrency("r", 10, Duration::from_secs(60));
    let mut gate = Gate::new(holders.clone());
    gate.hold(4, 1).expect_allow();
    assert_eq!(
        gate.change([Rule::sliding_log("r", Quota::per_minute(10))], OnQuotaChange::Keep).peek().remaining(),
        10
    );
    gate.take(4).expect_allow();
    assert_eq!(gate.change([holders], OnQuotaChange::Keep).peek().remaining(), 10);
}

#[test]
fn rules_are_matched_by_name_new_ones_start_afresh_and_gone_ones_are_forgotten() {
    let rule = |name: &str, limit| Rule::sliding_log(name, Quota::per_minute(limit));
    let mut gate = Gate::of([rule("a", 10), rule("b", 10)]);
    gate.take(4).expect_allow();
    gate.change([rule("c", 10), rule("b", 8)], OnQuotaChange::Keep);
    let remaining: Vec<u64> = gate.peek().rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(remaining, [10, 4]);
    gate.change([rule("a", 10), rule("b", 8)], OnQuotaChange::Keep);
    let remaining: Vec<u64> = gate.peek().rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(remaining, [10, 4]);
}

/// Units differ from quota to quota, so a bucket is carried over in whole permits: rather one too many than too few.
#[test]
fn a_fraction_that_is_used_counts_as_a_whole_permit() {
    let mut gate = Gate::new(Rule::token_bucket("r", Quota::per_minute(10)));
    gate.take(4).expect_allow();
    gate.advance(Span::from_secs(1));
    gate.change([Rule::token_bucket("r", Quota::per_minute(20))], OnQuotaChange::Keep);
    assert_eq!(gate.peek().remaining(), 16);
}
