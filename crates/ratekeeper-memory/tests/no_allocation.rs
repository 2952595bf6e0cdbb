//! Allocations of decisions on known keys: there are none.
//!
//! A counting allocator measures how often this thread allocates while the store decides. Lists (logs, leases) may
//! grow, and a key with waiters moves to the heap; tests state where that is allowed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use ratekeeper_core::{Align, Ask, Decision, LeaseId, Quota, Release, Rule, Span, Take, Verb};
use ratekeeper_memory::InstalledPolicy;
use support::Bench;

const KEYS: [&str; 4] = ["", "user:42", "sixteen bytes ok", "a key of more than sixteen bytes"];

/// Allocations during `times` decisions.
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
        assert!(bench.take(&policy, key, 1).is_allowed(), "the first take stores the key");
        let take = Verb::Take(Take::now());
        let ask = |cost| bench.store.decide_now(&[Ask::new(&policy, key).cost(cost)], &take).unwrap();

        let allows = allocations(allowed, |_| {
            let decision = ask(1);
            assert!(decision.is_allowed());
            decision
        });
        assert_eq!(allows, 0, "allowed, key {key:?}, {rules:?}");
        let moves = allocations(100, |_| {
            bench.clock.advance(Span::SECOND);
            ask(1)
        });
        assert_eq!(moves, 0, "as time passes, key {key:?}, {rules:?}");
        while ask(1).is_allowed() {}
        let denies = allocations(100, |_| {
            let decision = ask(1);
            assert!(!decision.is_allowed());
            decision
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
    Rule::token_bucket_stepwise("stepwise", Quota::per_minute(200))
}

fn window() -> Rule {
    Rule::fixed_window_aligned("window", Quota::per_hour(400), Align::FirstRequest)
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
    takes_nothing_from_the_heap(&[Rule::fixed_window_aligned("day", Quota::per_day(400), Align::Calendar(UTC))], 100);
}

#[test]
fn three_rules_take_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[bucket(), stepwise(), window()], 100);
}

#[test]
fn a_shadow_rule_takes_nothing_from_the_heap() {
    takes_nothing_from_the_heap(&[bucket(), window().shadow(true)], 100);
}

/// Slices are a list, which stops growing once every slice has been used.
#[test]
fn a_sliding_counter_takes_nothing_from_the_heap_once_its_slices_are_there() {
    for key in KEYS {
        let bench = Bench::roomy();
        let policy = bench.install("policy", [Rule::sliding_counter("counter", Quota::per_minute(1_000))]);
        let ask = || bench.take(&policy, key, 1);
        for _ in 0..40 {
            assert!(ask().is_allowed());
            bench.clock.advance(Span::from_secs(3));
        }
        let steady = allocations(200, |_| {
            bench.clock.advance(Span::from_secs(3));
            ask()
        });
        assert_eq!(steady, 0, "key {key:?}");
        while ask().is_allowed() {}
        assert_eq!(allocations(100, |_| ask()), 0, "denied, key {key:?}");
    }
}

/// A log grows by doubling: a thousand entries take about ten allocations, and a full log takes none.
#[test]
fn a_sliding_log_allocates_only_to_grow() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::sliding_log("log", Quota::per_hour(1_000))]);
    assert!(bench.take(&policy, "user:42", 1).is_allowed());
    let growing = allocations(999, |_| {
        bench.clock.advance(Span::from_micros(1));
        bench.take(&policy, "user:42", 1)
    });
    assert!(growing <= 12, "{growing} allocations for a thousand entries");
    assert_eq!(allocations(100, |_| bench.take(&policy, "user:42", 1)), 0, "denied");
}

/// A lease taken after a release reuses the list.
#[test]
fn holding_and_letting_go_reuses_the_list() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::concurrency("places", 3, std::time::Duration::from_secs(60))]);
    let hold = |lease| bench.decide(&policy, "pool", Verb::Take(Take::now().with_lease(LeaseId(lease))));
    // One lease is held throughout, or the key would return to its initial state in between, and be dropped.
    assert!(hold(0).is_allowed() && hold(1).is_allowed());
    let held = allocations(100, |turn| {
        let lease = LeaseId(turn + 1);
        assert_eq!(bench.decide(&policy, "pool", Verb::Release(Release::Lease(lease))).lease, Some(lease));
        hold(turn + 2)
    });
    assert_eq!(held, 0);
}

/// Peeks, refunds, penalties and settlements do not allocate either.
#[test]
fn other_verbs_take_nothing_from_the_heap() {
    let verbs = [
        (1, Verb::Peek),
        (1, Verb::Refund { at: None }),
        (1, Verb::Penalize),
        (2, Verb::Settle { actual: 1, at: None }),
        (1, Verb::Settle { actual: 2, at: None }),
    ];
    for rules in [vec![bucket()], vec![stepwise()], vec![window()], vec![bucket(), stepwise(), window()]] {
        for (cost, verb) in verbs {
            let bench = Bench::roomy();
            let policy: InstalledPolicy = bench.install("policy", rules.clone());
            assert!(bench.take(&policy, "user:42", 100).is_allowed());
            let visits = allocations(50, |_| bench.decide_n(&policy, "user:42", cost, verb));
            assert_eq!(visits, 0, "{verb:?} under {rules:?}");
        }
    }
}

const UTC: ratekeeper_core::UtcOffset = ratekeeper_core::UtcOffset::minutes(0);
