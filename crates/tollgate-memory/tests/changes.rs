//! A policy is installed again while keys are counted under the one before.
//!
//! Nothing happens to a key at that moment: it is carried over when it is next met, through every version it has
//! missed. These tests see to it that one who slept through three changes stands where one who was asked after each
//! of them stands, and that names keep apart what has nothing to do with each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use support::Bench;
use tollgate_core::{Align, carry_over};
use tollgate_core::{Ask, Carry, Decision, LeaseId, Micros, Policy, Quota, Rule, Store, Subject, Take, Verb};
use tollgate_testkit::{gate::START, random::Kind, random::Random};

fn per_hour(limit: u64) -> Rule {
    Rule::token_bucket("hour", Quota::per_hour(limit))
}

fn left_after(used: u64, from: Rule, to: Rule, carry: Carry) -> u64 {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [from]);
    assert!(bench.take(&policy, "key", used).is_allowed());
    bench.install_with("policy", [to], carry);
    bench.remaining(&policy, "key")
}

#[test]
fn used_stays_used() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), Carry::Keep), 14);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), Carry::Keep), 0);
}

#[test]
fn used_keeps_its_share() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), Carry::Scale), 8);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), Carry::Scale), 2);
}

#[test]
fn everybody_starts_afresh() {
    assert_eq!(left_after(6, per_hour(10), per_hour(20), Carry::Fresh), 20);
    assert_eq!(left_after(6, per_hour(10), per_hour(5), Carry::Fresh), 5);
}

/// The way of counting changes too, from a meter in the table to a list beside it and back.
#[test]
fn another_algorithm_takes_over_what_is_used() {
    let log = || Rule::sliding_log("hour", Quota::per_hour(10));
    let window = || Rule::fixed_window("hour", Quota::per_hour(10)).align(Align::FirstRequest);
    assert_eq!(left_after(6, per_hour(10), log(), Carry::Keep), 4);
    assert_eq!(left_after(6, log(), per_hour(20), Carry::Keep), 14);
    assert_eq!(left_after(6, log(), window(), Carry::Scale), 4);
    assert_eq!(left_after(6, window(), log(), Carry::Fresh), 10);
}

#[test]
fn a_key_that_slept_through_several_changes_is_carried_through_all_of_them() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    for key in ["asleep", "awake"] {
        assert!(bench.take(&policy, key, 4).is_allowed());
    }
    // 4 of 10, then 8 of 20, then 8 of 30, then 4 of 15.
    for (limit, carry, left) in [(20, Carry::Scale, 12), (30, Carry::Keep, 22), (15, Carry::Scale, 11)] {
        bench.install_with("policy", [per_hour(limit)], carry);
        assert_eq!(bench.remaining(&policy, "awake"), left);
    }
    assert_eq!(bench.remaining(&policy, "asleep"), 11);
    assert_eq!(bench.remaining(&policy, "newcomer"), 15);
}

/// Fresh anywhere on the way wipes what was before it, and nothing after it.
#[test]
fn a_fresh_start_on_the_way_counts_only_what_came_before() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    assert!(bench.take(&policy, "key", 10).is_allowed());
    bench.install_with("policy", [per_hour(20)], Carry::Fresh);
    bench.install_with("policy", [per_hour(40)], Carry::Scale);
    assert_eq!(bench.remaining(&policy, "key"), 40);
    assert!(bench.take(&policy, "key", 10).is_allowed());
    bench.install_with("policy", [per_hour(20)], Carry::Scale);
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
    assert_eq!(left, [100, 4], "matched by name, not by place");

    bench.install("policy", [day]);
    assert_eq!(bench.remaining(&policy, "key"), 100);
    bench.install("policy", [per_hour(10)]);
    assert_eq!(bench.remaining(&policy, "key"), 10, "a rule that was gone comes back without a past");
}

#[test]
fn holders_keep_their_places() {
    let bench = Bench::roomy();
    let places = |limit| Rule::concurrency("places", limit, Duration::from_secs(60));
    let policy = bench.install("policy", [places(3)]);
    let hold = |lease| bench.decide(&policy, "pool", Verb::Take(Take::now(1).held_as(LeaseId(lease))));
    assert!(hold(1).is_allowed() && hold(2).is_allowed());
    bench.install("policy", [places(2)]);
    assert!(!hold(3).is_allowed());
    assert_eq!(bench.decide(&policy, "pool", Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    bench.install("policy", [places(4)]);
    assert!(hold(3).is_allowed() && hold(4).is_allowed() && !hold(5).is_allowed());
}

/// A block and a promise are about the key, not about a rule: they outlive the change.
#[test]
fn blocks_and_promises_outlive_a_change() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::token_bucket("second", Quota::per_second(1))]);
    let _ = bench.decide(&policy, "blocked", Verb::Block { span: Micros::MINUTE });
    assert!(bench.take(&policy, "waited for", 1).is_allowed());
    let waits = bench.decide(&policy, "waited for", Verb::Take(Take::within(1, Micros::MINUTE))).wait();
    assert_eq!(waits, Micros::SECOND);

    bench.install("policy", [Rule::token_bucket("second", Quota::per_second(1).burst(2))]);
    assert!(!bench.take(&policy, "blocked", 1).is_allowed());
    bench.clock.advance(Micros(1));
    let _ = bench.decide(&policy, "waited for", Verb::Refund { cost: 1, at: None });
    assert_eq!(bench.remaining(&policy, "waited for"), 0, "what a waiter stands behind counts as spent");
}

#[test]
fn policies_of_one_name_in_different_domains_share_nothing() {
    let bench = Bench::roomy();
    let in_domain = |domain: &str, limit| {
        let policy = Policy::new("policy", [per_hour(limit)]).unwrap().in_domain(domain).unwrap();
        bench.store.install(policy, Carry::Keep).unwrap()
    };
    let (api, web, none) = (in_domain("api", 10), in_domain("web", 10), bench.install("policy", [per_hour(10)]));
    assert!(bench.take(&api, "key", 10).is_allowed());
    assert_eq!(bench.remaining(&web, "key"), 10);
    assert_eq!(bench.remaining(&none, "key"), 10);

    // A change of one is none of the others' business.
    let _ = in_domain("web", 7);
    assert_eq!([&api, &web, &none].map(|policy| bench.peek(policy, "key").limit()), [10, 7, 10]);
    assert_eq!([&api, &web, &none].map(|policy| bench.remaining(policy, "key")), [0, 7, 10]);
}

#[test]
fn several_keys_under_old_versions_are_carried_over_together() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_hour(10)]);
    assert!(bench.take(&policy, "a", 2).is_allowed() && bench.take(&policy, "b", 4).is_allowed());
    bench.install_with("policy", [per_hour(20)], Carry::Scale);
    assert!(bench.take_all(&policy, &["a", "b", "c"], 3).is_allowed());
    assert_eq!(["a", "b", "c"].map(|key| bench.remaining(&policy, key)), [13, 9, 17]);
}

/// A key that is as good as new may be let go at any time, before a change or after it; nobody can tell.
#[test]
fn forgetting_early_changes_no_answer_across_a_change() {
    let within = |secs| Rule::sliding_log("log", Quota::per_micros(5, Micros::from_secs(secs)));
    for change_after_ms in [500, 2_000] {
        let told = [false, true].map(|swept| {
            let bench = Bench::roomy();
            let policy = bench.install("policy", [within(1)]);
            assert!(bench.take(&policy, "key", 5).is_allowed());
            bench.clock.advance(Micros::from_millis(change_after_ms));
            if swept {
                bench.store.sweep(usize::MAX);
            }
            bench.install("policy", [within(60)]);
            bench.clock.advance(Micros::from_millis(3_000 - change_after_ms));
            if swept {
                bench.store.sweep(usize::MAX);
            }
            bench.take(&policy, "key", 1)
        });
        assert_eq!(told[0], told[1], "changed after {change_after_ms} ms");
    }
}

/// Any rules replaced by any others, at any moment: the store carries keys over as the core does, when they are next
/// met.
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
        let installed = bench.store.install(policy.clone(), Carry::Keep).unwrap();
        let mut subject: Subject = policy.fresh();
        for _ in 0..12 {
            // Changes pile up until the key is next met, so they are kept here as well.
            let mut changes = Vec::new();
            for _ in 0..random.below(3) {
                let next = Policy::new("policy", any_rules(&mut random)).unwrap();
                let carry = random.pick(&[Carry::Keep, Carry::Scale, Carry::Fresh]);
                bench.store.install(next.clone(), carry).unwrap();
                changes.push((next, carry));
            }
            now = now + Micros(random.pick(&[0, 1, 500_000, 3_000_000]));
            bench.clock.set(now);
            if policy.rests_at(&subject, now) <= now {
                subject = policy.fresh(); // forgotten, or as good as that
            }
            for (next, carry) in changes {
                subject = carry_over(&policy, &next, subject, carry, now);
                policy = next;
            }
            let cost = random.between(1, 4);
            let verb = Verb::Take(random.take(cost, &[1_000_000]).held_as(LeaseId(random.bits() >> 12)));
            let told = bench.store.decide_now(&[Ask::new(&installed, "key")], &verb).unwrap();
            let expected: Decision = policy.decide(&mut subject, &verb, now).decision;
            assert_eq!(told, expected, "seed {seed}: {verb:?} by {policy:?}");
        }
    }
}
