//! No allocation for a key that is known: deciding must not cost a trip to the allocator.
//!
//! Measured, not read off the code: the counting allocator says how often this thread asked for memory while the
//! store decided. Lists (logs, leases) may grow, and a key that somebody waits for moves to the heap; both are
//! named where they are allowed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use support::Bench;
use tollgate_core::{Align, Ask, Decision, LeaseId, Micros, Quota, Release, Rule, Take, Verb};
use tollgate_memory::InstalledPolicy;

const KEYS: [&str; 4] = ["", "user:42", "sixteen bytes ok", "a key of more than sixteen bytes"];

/// How often memory was asked for while the store answered so many times.
fn allocations(times: u64, mut ask: impl FnMut(u64) -> Decision) -> u64 {
    let counted = allocation_counter::measure(|| {
        for turn in 0..times {
            let _ = std::hint::black_box(ask(turn));
        }
    });
    counted.count_total
}

/// Takes of a known key, first allowed, then denied, then never: none of them allocates.
fn takes_nothing_from_the_heap(rules: &[Rule], allowed: u64) {
    for key in KEYS {
        let bench = Bench::roomy();
        let policy = bench.install("policy", rules.to_vec());
        assert!(bench.take(&policy, key, 1).is_allowed(), "the first one makes the key known");
        let take = |cost| Verb::Take(Take::now(cost));
        let ask = |cost| bench.store.decide_now(&[Ask::new(&policy, key)], &take(cost)).unwrap();

        let allows = allocations(allowed, |_| {
            let told = ask(1);
            assert!(told.is_allowed());
            told
        });
        assert_eq!(allows, 0, "allowed, key {key:?}, {rules:?}");
        let moves = allocations(100, |_| {
            bench.clock.advance(Micros::SECOND);
            ask(1)
        });
        assert_eq!(moves, 0, "as time passes, key {key:?}, {rules:?}");
        while ask(1).is_allowed() {}
        let denies = allocations(100, |_| {
            let told = ask(1);
            assert!(!told.is_allowed());
            told
        });
        assert_eq!(denies, 0, "denied, key {key:?}, {rules:?}");
        assert_eq!(allocations(10, |_| ask(1 << 30)), 0, "never, key {key:?}, {rules:?}");
        assert_eq!(allocations(10, |_| ask(0)), 0, "a take of nothing, key {key:?}, {rules:?}");
    }
}

fn bucket() -> Rule {
    Rule::token_bucket("bucket", Quota::per_minute(200))
}

fn stepwise() -> Rule {
    Rule::token_bucket("stepwise", Quota::per_minute(200)).stepwise()
}

fn window() -> Rule {
    Rule::fixed_window("window", Quota::per_hour(400)).align(Align::FirstRequest)
}

#[test]
fn buckets_take_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[bucket()], 100);
    takes_nothing_from_the_heap(&[Rule::leaky_bucket("leaky", Quota::per_minute(200))], 100);
}

#[test]
fn a_stepwise_bucket_takes_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[stepwise()], 100);
}

#[test]
fn a_fixed_window_takes_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[window()], 100);
    takes_nothing_from_the_heap(&[Rule::fixed_window("day", Quota::per_day(400)).align(Align::Calendar(UTC))], 100);
}

#[test]
fn three_rules_take_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[bucket(), stepwise(), window()], 100);
}

#[test]
fn a_shadow_rule_takes_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[bucket(), window().shadow(true)], 100);
}

/// Its slices are a list, but one that is as long as it gets once every slice has been used.
#[test]
fn a_sliding_counter_takes_nothing_from_the_heap_once_its_slices_are_there() {
    for key in KEYS {
        let bench = Bench::roomy();
        let policy = bench.install("policy", [Rule::sliding_counter("counter", Quota::per_minute(1_000))]);
        let ask = || bench.take(&policy, key, 1);
        for _ in 0..40 {
            assert!(ask().is_allowed());
            bench.clock.advance(Micros::from_secs(3));
        }
        let steady = allocations(200, |_| {
            bench.clock.advance(Micros::from_secs(3));
            ask()
        });
        assert_eq!(steady, 0, "key {key:?}");
        while ask().is_allowed() {}
        assert_eq!(allocations(100, |_| ask()), 0, "denied, key {key:?}");
    }
}

/// A log grows with what is in it, by doubling: a thousand entries are some ten visits, and a full log makes none.
#[test]
fn a_sliding_log_allocates_only_to_grow() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::sliding_log("log", Quota::per_hour(1_000))]);
    assert!(bench.take(&policy, "user:42", 1).is_allowed());
    let growing = allocations(999, |_| {
        bench.clock.advance(Micros(1));
        bench.take(&policy, "user:42", 1)
    });
    assert!(growing <= 12, "{growing} visits to the allocator for a thousand entries");
    assert_eq!(allocations(100, |_| bench.take(&policy, "user:42", 1)), 0, "denied");
}

/// A place that was held before is held again without a new list.
#[test]
fn holding_and_letting_go_reuses_the_list() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::concurrency("places", 3, std::time::Duration::from_secs(60))]);
    let hold = |lease| bench.decide(&policy, "pool", Verb::Take(Take::now(1).held_as(LeaseId(lease))));
    // One place stays taken throughout, or the key would be as good as new in between, and forgotten.
    assert!(hold(0).is_allowed() && hold(1).is_allowed());
    let held = allocations(100, |turn| {
        let lease = LeaseId(turn + 1);
        assert_eq!(bench.decide(&policy, "pool", Verb::Release(Release::Lease(lease))).lease, Some(lease));
        hold(turn + 2)
    });
    assert_eq!(held, 0);
}

/// Looking and giving back are decisions as well.
#[test]
fn other_verbs_take_nothing_from_the_heap() {
    let verbs = [
        Verb::Peek,
        Verb::Refund { cost: 1, at: None },
        Verb::Penalize { cost: 1 },
        Verb::Settle { reserved: 2, actual: 1, at: None },
        Verb::Settle { reserved: 1, actual: 2, at: None },
    ];
    for rules in [vec![bucket()], vec![stepwise()], vec![window()], vec![bucket(), stepwise(), window()]] {
        for verb in verbs {
            let bench = Bench::roomy();
            let policy: InstalledPolicy = bench.install("policy", rules.clone());
            assert!(bench.take(&policy, "user:42", 100).is_allowed());
            let visits = allocations(50, |_| bench.decide(&policy, "user:42", verb));
            assert_eq!(visits, 0, "{verb:?} under {rules:?}");
        }
    }
}

const UTC: tollgate_core::UtcOffset = tollgate_core::UtcOffset::minutes(0);
