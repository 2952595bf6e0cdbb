//! Changes of a policy while keys are counted under its previous version.
//!
//! An installation does not touch any key: a key is migrated when it is used next, through every version it has missed.
//! These tests check that a key that missed three changes has the same state as one that was used after each
//! of them, and that unrelated names are kept apart.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use ratekeeper_core::{Align, store_api::migrate_state};
use ratekeeper_core::{
    Ask, Decision, LeaseId, OnQuotaChange, Policy, Quota, Rule, Span, Store, Take, Verb, store_api::KeyState,
};
use ratekeeper_testkit::{gate::START, random::Kind, random::Random};
use support::Bench;

fn per_hour(limit: u64) -> Rule {
    Rule::token_bucket("hour", Quota::per_hour(limit))
}

fn left_after(used: u64, from: Rule, to: Rule, on_change: OnQuotaChange) -> u64 {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [from]);
    assert!(bench.take(&policy, "key", used).is_allowed());
    bench.install_with("policy", [to], on_change);
    bench.remaining(&policy, "key")
}

#[test]
fn used_stays_used() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), OnQuotaChange::Keep), 14);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), OnQuotaChange::Keep), 0);
}

#[test]
fn used_keeps_its_share() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), OnQuotaChange::Scale), 8);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), OnQuotaChange::Scale), 2);
}

#[test]
fn every_key_starts_in_its_initial_state() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), OnQuotaChange::Fresh), 20);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), OnQuotaChange::Fresh), 5);
}

/// The algorithm changes as well: from a meter in the table to a list outside of it, and back.
#[test]
fn another_algorithm_takes_over_what_is_used() {
    let log = || Rule::sliding_log("hour", Quota::per_hour(10));
    let window = || Rule::fixed_window_aligned("hour", Quota::per_hour(10), Align::FirstRequest);
    assert_eq!(left_after(6, per_hour(10), log(), OnQuotaChange::Keep), 4);
    assert_eq!(left_after(6, log(), per_hour(20), OnQuotaChange::Keep), 14);
    assert_eq!(left_after(6, log(), window(), OnQuotaChange::Scale), 4);
    assert_eq!(left_after(6, window(), log(), OnQuotaChange::Fresh), 10);
}

#[test]
fn a_key_that_slept_through_several_changes_is_carried_through_all_of_them() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    for key in ["asleep", "awake"] {
        assert!(bench.take(&policy, key, 4).is_allowed());
    }
    // 4 of 10, then 8 of 20, then 8 of 30, then 4 of 15.
    for (limit, on_change, left) in
        [(20, OnQuotaChange::Scale, 12), (30, OnQuotaChange::Keep, 22), (15, OnQuotaChange::Scale, 11)]
    {
        bench.install_with("policy", [per_hour(limit)], on_change);
        assert_eq!(bench.remaining(&policy, "awake"), left);
    }
    assert_eq!(bench.remaining(&policy, "asleep"), 11);
    assert_eq!(bench.remaining(&policy, "new"), 15);
}

/// `Fresh` in a series of changes clears the state before it, and nothing after it.
#[test]
fn a_fresh_start_on_the_way_counts_only_what_came_before() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    assert!(bench.take(&policy, "key", 10).is_allowed());
    bench.install_with("policy", [per_hour(20)], OnQuotaChange::Fresh);
    bench.install_with("policy", [per_hour(40)], OnQuotaChange::Scale);
    assert_eq!(bench.remaining(&policy, "key"), 40);
    assert!(bench.take(&policy, "key", 10).is_allowed());
    bench.install_with("policy", [per_hour(20)], OnQuotaChange::Scale);
    assert_eq!(bench.remaining(&policy, "key"), 15);
}

#[test]
fn a_rule_added_starts_afresh_and_leaves_the_others() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    assert!(bench.take(&policy, "key", 6).is_allowed());
    let day = Rule::sliding_log("day", Quota::per_day(100));
    bench.install("policy", [day.clone(), per_hour(10)]);
    let left: Vec<u64> = bench.peek(&policy, "key").rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(left, [100, 4], "matched by name, not by position");

    bench.install("policy", [day]);
    assert_eq!(bench.remaining(&policy, "key"), 100);
    bench.install("policy", [per_hour(10)]);
    assert_eq!(bench.remaining(&policy, "key"), 10, "a rule that is added again starts in its initial state");
}

#[test]
fn holders_keep_their_places() {
    let bench = Bench::roomy();
    let places = |limit| Rule::concurrency("places", limit, Duration::from_secs(60));
    let policy = bench.install("policy", [places(3)]);
    let hold = |lease| bench.decide(&policy, "pool", Verb::Take(Take::now().with_lease(LeaseId(lease))));
    assert!(hold(1).is_allowed() && hold(2).is_allowed());
    bench.install("policy", [places(2)]);
    assert!(!hold(3).is_allowed());
    assert_eq!(bench.decide(&policy, "pool", Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    bench.install("policy", [places(4)]);
    assert!(hold(3).is_allowed() && hold(4).is_allowed() && !hold(5).is_allowed());
}

/// Blocks and reservations belong to the key, not to a rule, and survive a change.
#[test]
fn blocks_and_promises_outlive_a_change() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::token_bucket("second", Quota::per_second(1))]);
    let _ = bench.decide(&policy, "blocked", Verb::Block { span: Span::MINUTE });
    assert!(bench.take(&policy, "waited for", 1).is_allowed());
    let waits = bench.decide(&policy, "waited for", Verb::Take(Take::within(Span::MINUTE))).verdict.wait();
    assert_eq!(waits, Span::SECOND);

    bench.install("policy", [Rule::token_bucket("second", Quota::per_second(1).burst(2))]);
    assert!(!bench.take(&policy, "blocked", 1).is_allowed());
    bench.clock.advance(Span::from_micros(1));
    let _ = bench.decide(&policy, "waited for", Verb::Refund { at: None });
    assert_eq!(bench.remaining(&policy, "waited for"), 0, "permits before a reservation count as spent");
}

#[test]
fn policies_of_one_name_in_different_domains_share_nothing() {
    let bench = Bench::roomy();
    let in_domain = |domain: &str, limit| {
        let policy = Policy::new("policy", [per_hour(limit)]).unwrap().in_domain(domain).unwrap();
        bench.store.install(policy, OnQuotaChange::Keep).unwrap()
    };
    let (api, web, none) = (in_domain("api", 10), in_domain("web", 10), bench.install("policy", [per_hour(10)]));
    assert!(bench.take(&api, "key", 10).is_allowed());
    assert_eq!(bench.remaining(&web, "key"), 10);
    assert_eq!(bench.remaining(&none, "key"), 10);

    // A change of one policy does not affect the others.
    let _ = in_domain("web", 7);
    assert_eq!([&api, &web, &none].map(|policy| bench.peek(policy, "key").limit()), [10, 7, 10]);
    assert_eq!([&api, &web, &none].map(|policy| bench.remaining(policy, "key")), [0, 7, 10]);
}

#[test]
fn several_keys_under_old_versions_are_carried_over_together() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    assert!(bench.take(&policy, "a", 2).is_allowed() && bench.take(&policy, "b", 4).is_allowed());
    bench.install_with("policy", [per_hour(20)], OnQuotaChange::Scale);
    assert!(bench.take_all(&policy, &["a", "b", "c"], 3).is_allowed());
    assert_eq!(["a", "b", "c"].map(|key| bench.remaining(&policy, key)), [13, 9, 17]);
}

/// A key in its initial state may be dropped at any time, before a change or after it, without a visible difference.
#[test]
fn forgetting_early_changes_no_answer_across_a_change() {
    let within = |secs| Rule::sliding_log("log", Quota::per_micros(5, Span::from_secs(secs)));
    for change_after_ms in [500, 2_000] {
        let decisions = [false, true].map(|swept| {
            let bench = Bench::roomy();
            let policy = bench.install("policy", [within(1)]);
            assert!(bench.take(&policy, "key", 5).is_allowed());
            bench.clock.advance(Span::from_millis(change_after_ms));
            if swept {
                bench.store.sweep(usize::MAX);
            }
            bench.install("policy", [within(60)]);
            bench.clock.advance(Span::from_millis(3_000 - change_after_ms));
            if swept {
                bench.store.sweep(usize::MAX);
            }
            bench.take(&policy, "key", 1)
        });
        assert_eq!(decisions[0], decisions[1], "changed after {change_after_ms} ms");
    }
}

/// Random rules replaced by random rules at random times: the store migrates keys as the core does, when they are next
/// used.
#[test]
fn random_changes_are_carried_over_as_the_core_does() {
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let any_rules = |random: &mut Random| -> Vec<Rule> {
            let count = random.between(1, 2);
            (0..count)
                .map(|index| {
                    let kind = random.pick(&Kind::ALL);
                    random.rule(&format!("rule {index}"), kind)
                })
                .collect()
        };
        let bench = Bench::roomy();
        let mut now = START;
        let mut policy = Policy::new("policy", any_rules(&mut random)).unwrap();
        let installed = bench.store.install(policy.clone(), OnQuotaChange::Keep).unwrap();
        let mut key_state: KeyState = policy.fresh();
        for _ in 0..12 {
            // Changes accumulate until the key is next used, so they are recorded here as well.
            let mut changes = Vec::new();
            for _ in 0..random.below(3) {
                let next = Policy::new("policy", any_rules(&mut random)).unwrap();
                let on_change = random.pick(&[OnQuotaChange::Keep, OnQuotaChange::Scale, OnQuotaChange::Fresh]);
                bench.store.install(next.clone(), on_change).unwrap();
                changes.push((next, on_change));
            }
            now = now + Span::from_micros(random.pick(&[0, 1, 500_000, 3_000_000]));
            bench.clock.set(now);
            if policy.reset_at(&key_state, now) <= now {
                key_state = policy.fresh(); // dropped, or equal to a dropped key
            }
            for (next, on_change) in changes {
                key_state = migrate_state(&policy, &next, key_state, on_change, now);
                policy = next;
            }
            let cost = random.between(1, 4);
            let verb = Verb::Take(random.take(&[1_000_000]).with_lease(LeaseId(random.bits() >> 12)));
            let found = bench.store.decide_now(&[Ask::new(&installed, "key").cost(cost)], &verb).unwrap();
            let expected: Decision = policy.decide(&mut key_state, cost, &verb, now).decision;
            assert_eq!(found, expected, "seed {seed}: {verb:?} by {policy:?}");
        }
    }
}
