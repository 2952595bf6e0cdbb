//! Lifetime of policy versions: a version is kept while something refers to it, and no longer.
//!
//! A version is referred to by keys that are counted under it, and a policy by its handles as well. However often
//! policies change, the number of versions stays small, no key loses its count, and no decision uses the count of
//! another policy's key.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use ratekeeper_core::{InlineLimits, OnQuotaChange, Policy, Quota, Rule, Span};
use ratekeeper_memory::{InstalledPolicy, MemoryConfig};
use support::Bench;

/// Superseded versions that may be kept: those that are left until their keys are used, and those of one pass.
const KEPT: usize = 4_096;

fn per_day(limit: u64) -> Rule {
    Rule::token_bucket("day", Quota::per_day(limit))
}

fn per_second(limit: u64) -> Rule {
    Rule::token_bucket("second", Quota::per_second(limit))
}

fn log_per_day(limit: u64) -> Rule {
    Rule::sliding_log("day", Quota::per_day(limit))
}

#[test]
fn a_million_changes_keep_few_versions_and_every_count() {
    let bench = Bench::with(MemoryConfig::default().shards(8));
    let mut counted: Vec<(&str, String, u64)> = Vec::new();
    let mut most = 0;
    for change in 0..1_000_000_u64 {
        // Two policies whose keys are in the table and outside of it.
        let (name, rule) = match change % 4 {
            0 => ("bucket", per_day(1_000)),
            1 => ("log", log_per_day(1_000)),
            2 => ("bucket", per_day(1_001)),
            _ => ("log", log_per_day(1_001)),
        };
        let policy = bench.install(name, [rule]);
        if change % 499 == 0 {
            let key = format!("key {change}");
            assert!(bench.take(&policy, &key, change % 97 + 1).is_allowed());
            counted.push((name, key, change % 97 + 1));
        }
        most = most.max(bench.store.policy_versions());
    }
    assert!(most < KEPT, "{most} versions at a time");
    let (bucket, log) = (bench.install("bucket", [per_day(1_001)]), bench.install("log", [log_per_day(1_001)]));
    for (name, key, used) in &counted {
        let policy = if *name == "bucket" { &bucket } else { &log };
        assert_eq!(bench.remaining(policy, key), 1_001 - used, "{key} under {name}");
    }
    assert_eq!(bench.store.policy_versions(), 2, "all keys have been asked about, so the old versions are gone");
}

/// A key that missed more changes than are applied one by one starts in its initial state if one of them was `Fresh`.
#[test]
fn a_fresh_start_among_many_missed_changes_counts() {
    for fresh_at in [None, Some(0), Some(50), Some(99)] {
        let bench = Bench::roomy();
        let policy = bench.install("policy", [per_day(10)]);
        assert!(bench.take(&policy, "key", 4).is_allowed());
        for change in 0..100 {
            let on_change = if fresh_at == Some(change) { OnQuotaChange::Fresh } else { OnQuotaChange::Keep };
            bench.install_with("policy", [per_day(20 + change % 2)], on_change);
        }
        assert_eq!(bench.remaining(&policy, "key"), if fresh_at.is_some() { 21 } else { 17 }, "{fresh_at:?}");
    }
}

/// A handle refers to its policy, not to the version it came with, and keeps no other version alive.
#[test]
fn a_handle_kept_through_all_changes_keeps_nothing_else() {
    let bench = Bench::roomy();
    let first = bench.install("policy", [per_day(10)]);
    assert!(bench.take(&first, "key", 4).is_allowed());
    for change in 0..100_000 {
        bench.install("policy", [per_day(10 + change % 2)]);
    }
    assert!(bench.store.policy_versions() < KEPT);
    assert_eq!((bench.peek(&first, "key").limit(), bench.remaining(&first, "key")), (11, 7));
    assert_eq!(bench.store.policy_versions(), 1);
}

#[test]
fn the_same_rules_again_are_no_new_version() {
    let bench = Bench::roomy();
    let first = bench.install("policy", [per_day(10)]);
    assert!(bench.take(&first, "key", 4).is_allowed());
    for on_change in [OnQuotaChange::Keep, OnQuotaChange::Scale, OnQuotaChange::Fresh] {
        let again = bench.install_with("policy", [per_day(10)], on_change);
        assert_eq!((bench.remaining(&again, "key"), bench.store.policy_versions()), (6, 1), "{on_change:?}");
    }
    let shadow = bench.install("policy", [per_day(10).shadow(true)]);
    assert!(bench.take(&shadow, "key", 7).is_allowed(), "shadow rules are different rules");
}

#[test]
fn a_hundred_thousand_policies_are_counted_apart() {
    let bench = Bench::roomy();
    let policies: Vec<InstalledPolicy> =
        (0..100_000).map(|number| bench.install(&format!("policy {number}"), [per_day(10)])).collect();
    for (policy, used) in policies.iter().zip((1..=10).cycle()) {
        assert!(bench.take(policy, "key", used).is_allowed());
    }
    for (policy, used) in policies.iter().zip((1..=10).cycle()) {
        assert_eq!(bench.remaining(policy, "key"), 10 - used);
    }
    assert_eq!(bench.store.policy_versions(), policies.len());
    drop(policies);
    assert_eq!(bench.store.policy_versions(), 100_000, "keys are counted under all of them");
    bench.clock.advance(Span::from_micros(2 * Span::DAY.as_micros()));
    bench.store.sweep(usize::MAX);
    assert_eq!(bench.store.policy_versions(), 0);
}

/// More versions with keys in one shard than 16 bits can number: the others are kept outside of the table.
#[test]
fn one_shard_holds_keys_of_more_versions_than_an_entry_has_bits_for() {
    let bench = Bench::with(MemoryConfig::default().shards(1));
    let name = |number: u64| format!("policy {number}");
    let count = 70_000;
    let policies: Vec<InstalledPolicy> = (0..count).map(|number| bench.install(&name(number), [per_day(10)])).collect();
    let used = |number: u64| number % 9 + 1;
    for (policy, number) in policies.iter().zip(0..) {
        assert!(bench.take(policy, "key", used(number)).is_allowed());
    }
    // Every other one changes; their keys are migrated to numbers that others have left.
    for number in (0..count).step_by(2) {
        bench.install(&name(number), [per_day(20)]);
    }
    for (policy, number) in policies.iter().zip(0..) {
        let limit = if number % 2 == 0 { 20 } else { 10 };
        assert_eq!(bench.remaining(policy, "key"), limit - used(number), "{number}");
        assert!(bench.take(policy, "key", 1).is_allowed());
        assert_eq!(bench.remaining(policy, "key"), limit - used(number) - 1, "{number}");
    }
    assert!(bench.store.bytes() <= bench.store.budget_bytes());
}

/// A removed policy is kept by the keys that are counted under it; installed again, it continues with their counts.
#[test]
fn a_policy_that_comes_back_finds_its_keys() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [per_day(10)]);
    assert!(bench.take(&policy, "key", 4).is_allowed());
    drop(policy);
    let back = bench.install("policy", [per_day(20)]);
    assert_eq!(bench.remaining(&back, "key"), 16);
    drop(back);
    bench.clock.advance(Span::from_micros(2 * Span::DAY.as_micros()));
    bench.store.sweep(usize::MAX);
    assert_eq!(bench.store.policy_versions(), 0);
    let anew = bench.install("policy", [per_day(30)]);
    assert_eq!(bench.remaining(&anew, "key"), 30);
}

/// Alternatives are freed like any other version.
#[test]
fn alternatives_are_freed_with_their_handles_and_keys() {
    let bench = Bench::roomy();
    for number in 1..=50_000 {
        let policy = Policy::new("throttle", [per_second(number)]).unwrap();
        let policy = bench.store.install_variant(policy).unwrap();
        assert!(bench.peek(&policy, "key").limit() == number);
        let _ = bench.take(&policy, "key", 1);
    }
    assert!(bench.store.policy_versions() <= 2, "the one the key is counted under, and the first");
}

/// Sets a flag when dropped, also by a panic: otherwise the threads of the scope would never end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads decide the same key of many policies, in hot slots and in the table, while policies change, come and go and
/// keys are migrated. Every permit is counted once, under its policy.
#[test]
fn no_count_is_lost_or_mixed_up_while_versions_come_and_go() {
    const LIMIT: u64 = 500_000_000;
    let bench = Bench::with(MemoryConfig::default().shards(2));
    let steady = bench.install("steady", [per_second(LIMIT)]);
    let changing = bench.install("changing", [per_second(LIMIT)]);
    let (stop, taken, newest) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)], AtomicU64::new(0));
    thread::scope(|scope| {
        let _stop_threads = SetOnDrop(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut known = bench.install("changing", [per_second(LIMIT)]);
                for turn in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Handles of different ages, as in long-lived callers and after reloads.
                    if turn % 64 == 0 {
                        known = bench.install("changing", [per_second(LIMIT + newest.load(Ordering::Relaxed))]);
                    }
                    for (policy, taken) in [(&steady, &taken[0]), (&known, &taken[1]), (&changing, &taken[1])] {
                        assert!(bench.take(policy, "key", 1).is_allowed());
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for change in 0..40_000_u64 {
            newest.store(change % 5, Ordering::Relaxed);
            let policy = bench.install("changing", [per_second(LIMIT + change % 5)]);
            // A key that is not used again, and a policy that comes and goes with a key of the same name.
            assert!(bench.take(&policy, &format!("unused {change}"), 1).is_allowed());
            let passing = bench.install(&format!("passing {}", change % 7), [per_day(5)]);
            let decision = bench.take(&passing, "key", 1);
            assert!(decision.limit() == 5 && decision.remaining() == 4, "{decision:?}");
            let _ = bench.decide(&passing, "key", ratekeeper_core::Verb::Reset);
        }
    });
    assert!(bench.store.policy_versions() < KEPT + 100, "{}", bench.store.policy_versions());
    let taken = taken.map(AtomicU64::into_inner);
    let changing = bench.install("changing", [per_second(LIMIT)]);
    assert_eq!(bench.remaining(&steady, "key"), LIMIT - taken[0]);
    assert_eq!(bench.remaining(&changing, "key"), LIMIT - taken[1]);
    for change in (0..40_000_u64).step_by(777) {
        assert_eq!(bench.remaining(&changing, &format!("unused {change}")), LIMIT - 1);
    }
}
