//! Byte budget of the embedded store: it holds under any load, and eviction chooses the right keys.
//!
//! Floods of ten million keys that are used once, limited keys that must survive them, and eviction in steps so small that
//! no decision is delayed. Memory is measured twice: as the store reports it, and by the allocator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::fmt::Write;

use ratekeeper_core::{Align, Decision, Quota, Rule, Source, Span, Take, Verb};
use ratekeeper_memory::{InstalledPolicy, MemoryConfig};
use support::Bench;

const MIB: usize = 1 << 20;
const FLOOD: u64 = 10_000_000;

/// Writes the key of this number without allocating, so that all allocations are the store's.
fn flood_key(key: &mut String, number: u64) -> &str {
    key.clear();
    // Consecutive numbers would favour the table; an odd factor scatters them.
    write!(key, "ip:{:08x}", number.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF).unwrap();
    key
}

/// Asks once for each of `keys` new keys, and passes every decision to `see`.
fn flood(bench: &Bench, policy: &InstalledPolicy, keys: u64, see: impl FnMut(u64, Decision)) {
    flood_of(bench, policy, keys, 1, see);
}

fn flood_of(bench: &Bench, policy: &InstalledPolicy, keys: u64, cost: u64, mut see: impl FnMut(u64, Decision)) {
    let mut key = String::with_capacity(16);
    for number in 0..keys {
        see(number, bench.take(policy, flood_key(&mut key, number), cost));
    }
}

/// Bytes beyond the budget that the allocator may count: a growing shard exists twice for a short time, and the store,
/// its policies and locks take some.
const SPILLED: usize = 2 * MIB;

#[test]
fn ten_million_keys_seen_once_stay_within_the_budget() {
    let mut highest = 0;
    let measured = allocation_counter::measure(|| {
        let bench = Bench::with(MemoryConfig::default().budget_bytes(32 * MIB));
        // A key is back in its initial state after six seconds. Two million new keys arrive in that time, three times
        // what fits.
        let policy = bench.install("ordinary", [Rule::token_bucket("minute", Quota::per_minute(10))]);
        flood(&bench, &policy, FLOOD, |number, decision| {
            assert!(decision.is_allowed(), "a new key has its whole limit: {decision:?}");
            if number % 256 == 0 {
                bench.clock.advance(Span::from_micros(3 * 256));
            }
            if number % 10_000 == 0 {
                highest = highest.max(bench.store.bytes());
                assert!(highest <= 32 * MIB, "{highest} bytes after {number} keys");
            }
        });
        let stats = bench.store.stats();
        assert_eq!(stats.overflowed, 0, "there was always a key to evict");
        assert!(stats.evicted > 0);
        assert_eq!(stats.expired + stats.evicted + bench.store.len() as u64, FLOOD, "all keys accounted for");
    });
    assert!(highest > 24 * MIB, "most of the budget is used: {highest} bytes");
    let most = usize::try_from(measured.bytes_max).unwrap();
    assert!(most <= 32 * MIB + SPILLED, "the allocator saw {most} bytes");
}

/// One permit a day: every known key is exhausted at once, so none may be evicted, and new keys share a count.
#[test]
fn ten_million_exhausted_keys_evict_none() {
    let measured = allocation_counter::measure(|| {
        let bench = Bench::with(MemoryConfig::default().budget_bytes(32 * MIB));
        let policy = bench.install("daily", [Rule::token_bucket("day", Quota::per_day(1))]);
        let (mut own, mut shared) = (0, 0);
        flood(&bench, &policy, FLOOD, |number, decision| {
            match decision.source {
                Source::Overflow => shared += 1,
                _ => {
                    assert!(decision.is_allowed(), "number {number} is new: {decision:?}");
                    own += 1;
                }
            }
            if number % 10_000 == 0 {
                assert!(bench.store.bytes() <= 32 * MIB, "after {number} keys");
            }
        });
        let stats = bench.store.stats();
        assert_eq!((stats.evicted, stats.expired, stats.overflowed), (0, 0, shared));
        assert_eq!(bench.store.len() as u64, own);
        assert!(own > 400_000 && shared > 0, "{own} separate keys, {shared} shared");
        // The first keys are still stored.
        let mut key = String::new();
        for number in 0..1_000 {
            let decision = bench.take(&policy, flood_key(&mut key, number), 1);
            assert!(!decision.is_allowed() && decision.source == Source::Store, "number {number}: {decision:?}");
        }
    });
    let most = usize::try_from(measured.bytes_max).unwrap();
    assert!(most <= 32 * MIB + SPILLED, "the allocator saw {most} bytes");
}

/// Long keys and lists are on the heap and count towards the budget.
#[test]
fn long_keys_and_lists_stay_within_the_budget() {
    let shapes: [(&str, Vec<Rule>); 3] = [
        ("a key whose name does not fit into its entry ", vec![Rule::token_bucket("minute", Quota::per_minute(10))]),
        ("", vec![Rule::sliding_log("minute", Quota::per_minute(10))]),
        (
            "three rules ",
            vec![
                Rule::token_bucket("minute", Quota::per_minute(10)),
                Rule::sliding_counter("hour", Quota::per_hour(100)),
                Rule::fixed_window_aligned("day", Quota::per_day(1_000), Align::FirstRequest),
            ],
        ),
    ];
    for (prefix, rules) in shapes {
        let measured = allocation_counter::measure(|| {
            let bench = Bench::with(MemoryConfig::default().budget_bytes(4 * MIB));
            let policy = bench.install("policy", rules.clone());
            let mut key = String::with_capacity(64);
            for number in 0..300_000_u64 {
                key.clear();
                write!(key, "{prefix}{number}").unwrap();
                let decision = bench.take(&policy, &key, 1);
                assert!(
                    decision.is_allowed(),
                    "number {number}, among thousands that may be evicted: {decision:?} by {rules:?}"
                );
                if number % 1_000 == 0 {
                    let bytes = bench.store.bytes();
                    assert!(bytes <= 4 * MIB, "{bytes} bytes after {number} keys of {rules:?}");
                }
            }
            assert!(bench.store.bytes() > 2 * MIB);
        });
        let most = usize::try_from(measured.bytes_max).unwrap();
        assert!(most <= 4 * MIB + SPILLED, "the allocator saw {most} bytes for {rules:?}");
    }
}

/// The reported bytes are those that the allocator counted.
#[test]
fn bytes_are_what_the_allocator_gave() {
    let minute = || Rule::token_bucket("minute", Quota::per_minute(10));
    let shapes: [(&str, Vec<Rule>); 5] = [
        ("u", vec![minute()]),
        ("a key with a rather long name ", vec![minute()]),
        ("u", vec![Rule::sliding_log("log", Quota::per_hour(100))]),
        ("u", vec![minute(), Rule::sliding_counter("counter", Quota::per_hour(100))]),
        ("u", vec![Rule::concurrency("places", 100, std::time::Duration::from_secs(3600))]),
    ];
    for (prefix, rules) in shapes {
        let bench = Bench::roomy();
        let policy = bench.install("policy", rules.clone());
        let mut key = String::with_capacity(64);
        let before = bench.store.bytes();
        let measured = allocation_counter::measure(|| {
            for number in 0..40_000_u64 {
                key.clear();
                write!(key, "{prefix}{}", number % 20_000).unwrap();
                bench.clock.advance(Span::from_micros(1));
                assert!(bench.take(&policy, &key, 1).is_allowed());
            }
        });
        let reported = bench.store.bytes() - before;
        let given = usize::try_from(measured.bytes_current).unwrap();
        assert!(reported.abs_diff(given) <= given / 50 + 4_096, "reported {reported}, given {given} for {rules:?}");
    }
}

/// A limited key stays limited through a flood of other keys, however it is limited.
#[test]
fn a_limited_key_is_still_limited_after_the_flood() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    let keys = |what: &str| (0..50).map(|number| format!("{what} {number}")).collect::<Vec<_>>();
    for key in keys("exhausted") {
        assert!(bench.take(&policy, &key, 10).is_allowed());
    }
    for key in keys("denied") {
        // Two are left, but a request for three was denied.
        assert!(bench.take(&policy, &key, 8).is_allowed() && !bench.take(&policy, &key, 3).is_allowed());
    }
    for key in keys("blocked") {
        let _ = bench.decide(&policy, &key, Verb::Block { span: Span::DAY });
    }
    for key in keys("waited for") {
        assert!(bench.take(&policy, &key, 10).is_allowed());
        let decision = bench.decide(&policy, &key, Verb::Take(Take::within(Span::HOUR)));
        assert_eq!(decision.verdict.wait(), Span::from_secs(360));
    }
    for key in keys("in debt") {
        let _ = bench.decide_n(&policy, &key, 25, Verb::Penalize);
    }
    // These keys use nine of ten, so all others are nearer to their initial state and would be evicted first.
    flood_of(&bench, &policy, 300_000, 9, |_, decision| assert!(decision.is_allowed(), "{decision:?}"));
    assert!(bench.store.stats().evicted > 100_000);

    for key in keys("exhausted") {
        assert!(!bench.take(&policy, &key, 1).is_allowed(), "{key}");
    }
    for key in keys("denied") {
        assert_eq!(bench.remaining(&policy, &key), 2, "{key}");
        assert!(!bench.take(&policy, &key, 3).is_allowed(), "{key}");
    }
    for key in keys("blocked") {
        assert!(!bench.take(&policy, &key, 1).is_allowed(), "{key}");
    }
    for key in keys("waited for") {
        let decision = bench.decide(&policy, &key, Verb::Take(Take::within(Span::HOUR)));
        assert_eq!(decision.verdict.wait(), Span::from_secs(720), "{key}: behind the reservation made before");
    }
    for key in keys("in debt") {
        assert_eq!(bench.peek(&policy, &key).reset_after_span(), Span::from_secs(25 * 360), "{key}");
    }
}

/// The same for a key that was denied as one of several, or under several rules.
#[test]
fn a_key_denied_together_with_others_is_still_limited_after_the_flood() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    let keys: Vec<String> = (0..50).map(|number| format!("pair {number}")).collect();
    for pair in keys.chunks(2) {
        let pair = [pair[0].as_str(), pair[1].as_str()];
        assert!(bench.take_all(&policy, &pair, 8).is_allowed());
        assert!(!bench.take_all(&policy, &pair, 3).is_allowed());
    }
    flood_of(&bench, &policy, 300_000, 9, |_, decision| assert!(decision.is_allowed(), "{decision:?}"));
    for key in &keys {
        assert!(!bench.take(&policy, key, 3).is_allowed(), "{key} was denied before");
    }
}

/// A decision evicts only a few keys: no decision waits for a sweep.
#[test]
fn cleaning_is_done_in_small_steps() {
    // Eight evictions for one new key, three slots examined for it, one for the decision.
    const MOST: u64 = 12;
    let rules =
        [Rule::token_bucket("minute", Quota::per_minute(10)), Rule::sliding_log("minute", Quota::per_minute(10))];
    for rule in rules {
        let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB).shards(2));
        let policy = bench.install("policy", [rule]);
        let gone = || {
            let stats = bench.store.stats();
            stats.expired + stats.evicted
        };
        let (mut before, mut most) = (0, 0);
        flood(&bench, &policy, 150_000, |number, decision| {
            assert!(decision.is_allowed(), "number {number}, among thousands that may be evicted: {decision:?}");
            if number % 50_000 == 49_999 {
                bench.clock.advance(Span::HOUR); // all keys are back in their initial state at once
            }
            let now = gone();
            most = most.max(now - before);
            before = now;
        });
        assert!(most <= MOST, "{most} keys removed in one step");
        assert!(before > 100_000, "{before} removed in all");
    }
}

/// Keys in their initial state are removed while other keys are used, and their memory is freed.
#[test]
fn initial_keys_are_removed_while_others_are_busy() {
    let shapes = [
        vec![Rule::token_bucket("minute", Quota::per_minute(10))],
        vec![Rule::sliding_log("minute", Quota::per_minute(10))],
        vec![
            Rule::token_bucket("minute", Quota::per_minute(10)),
            Rule::fixed_window_aligned("hour", Quota::per_hour(100), Align::FirstRequest),
        ],
    ];
    for rules in shapes {
        let bench = Bench::with(MemoryConfig::default().shards(4));
        let policy = bench.install("policy", rules.clone());
        flood(&bench, &policy, 100_000, |_, decision| assert!(decision.is_allowed()));
        let (keys, bytes) = (bench.store.len(), bench.store.bytes());
        assert_eq!(keys, 100_000);

        bench.clock.advance(Span::DAY);
        let busy: Vec<String> = (0..500).map(|number| format!("busy {number}")).collect();
        // Decisions on known keys examine one slot in 32 decisions on average, so eight million decisions examine every
        // slot once. Hot keys are swept by time, and a shard with few busy keys is swept by decisions on those few.
        for turn in 0..32_000_000_usize {
            bench.clock.advance(Span::from_micros(1));
            let _ = bench.take(&policy, &busy[turn % busy.len()], 1);
            if turn % 100_000 == 0 && bench.store.len() <= 600 {
                break;
            }
        }
        assert!(bench.store.len() <= 600, "{} of {keys} keys are left of {rules:?}", bench.store.len());
        let left = bench.store.bytes();
        assert!(left < bytes / 4, "{left} of {bytes} bytes are left of {rules:?}");
    }
}

/// The same by explicit calls of `sweep`, as from a timer.
#[test]
fn a_sweep_removes_initial_keys_and_no_others() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::token_bucket("minute", Quota::per_minute(10))]);
    flood(&bench, &policy, 50_000, |_, decision| assert!(decision.is_allowed()));
    bench.store.sweep(usize::MAX);
    assert_eq!(bench.store.len(), 50_000);
    bench.clock.advance(Span::MINUTE);
    assert!(bench.take(&policy, "still here", 5).is_allowed());
    // A slot that a key has just left counts as examined, too, so one round may not be enough.
    for _ in 0..4 {
        bench.store.sweep(usize::MAX);
    }
    assert_eq!(bench.store.len(), 1);
    assert_eq!(bench.remaining(&policy, "still here"), 5);
}

/// A growing log evicts other keys, not itself: its entries keep its key within the limit.
#[test]
fn growing_lists_evict_other_keys_and_keep_their_count() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB).shards(1));
    let policy = bench.install("policy", [Rule::sliding_log("hour", Quota::per_hour(10_000))]);
    flood(&bench, &policy, 20_000, |_, decision| assert!(decision.is_allowed()));
    for turn in 1..=10_000 {
        bench.clock.advance(Span::from_micros(1));
        let decision = bench.take(&policy, "hoarder", 1);
        assert!(decision.is_allowed());
        assert_eq!(decision.remaining(), 10_000 - turn, "its count is complete");
        // A list doubles at once and other keys are evicted one by one, so the budget is exceeded for a while.
        let own = usize::try_from(2 * 16 * turn).unwrap();
        assert!(bench.store.bytes() <= MIB + own, "{} bytes after {turn}", bench.store.bytes());
    }
    assert!(bench.store.bytes() <= MIB);
    assert!(!bench.take(&policy, "hoarder", 1).is_allowed());
}

/// Every key has a waiter, which takes more memory than a meter, and the budget still holds.
#[test]
fn waiting_for_every_key_stays_within_the_budget() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB).shards(1));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(1))]);
    let mut key = String::new();
    flood(&bench, &policy, 50_000, |_, _| ());
    let known = bench.store.len();
    for number in 0..50_000 {
        let wait = Verb::Take(Take::within(Span::DAY));
        let _ = bench.decide(&policy, flood_key(&mut key, number), wait);
        let bytes = bench.store.bytes();
        assert!(bytes <= MIB, "{bytes} bytes after {number} waiters, {known} keys");
    }
}
