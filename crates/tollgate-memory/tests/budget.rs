//! A byte budget that holds, whoever comes, and who has to go when it is spent.
//!
//! Floods of ten million keys that are seen once; keys that must be remembered through them; and the cleaning, which
//! has to be done in steps so small that nobody waits for them. Memory is measured twice: as the store tells it, and as
//! the allocator saw it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::fmt::Write;

use support::Bench;
use tollgate_core::{Align, Decision, Micros, Quota, Rule, Source, Take, Verb};
use tollgate_memory::{InstalledPolicy, MemoryConfig};

const MIB: usize = 1 << 20;
const FLOOD: u64 = 10_000_000;

/// Writes the key of this number, without allocating: the flood is to be the store's alone.
fn flood_key(key: &mut String, number: u64) -> &str {
    key.clear();
    // Numbers in a row would be kind to the table; an odd factor scatters them.
    write!(key, "ip:{:08x}", number.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF).unwrap();
    key
}

/// Asks once for each of so many new keys, and looks at every answer.
fn flood(bench: &Bench, policy: &InstalledPolicy, keys: u64, see: impl FnMut(u64, Decision)) {
    flood_of(bench, policy, keys, 1, see);
}

fn flood_of(bench: &Bench, policy: &InstalledPolicy, keys: u64, cost: u64, mut see: impl FnMut(u64, Decision)) {
    let mut key = String::with_capacity(16);
    for number in 0..keys {
        see(number, bench.take(policy, flood_key(&mut key, number), cost));
    }
}

/// What the allocator may see beside the budget: a shard that grows is there twice for a moment, and the
/// store itself, its policies and locks take a little.
const BESIDE: usize = 2 * MIB;

#[test]
fn ten_million_keys_seen_once_stay_within_the_budget() {
    let mut highest = 0;
    let measured = allocation_counter::measure(|| {
        let bench = Bench::with(MemoryConfig::default().budget_bytes(32 * MIB));
        // A key is as good as new after six seconds, in which two million come: three times what there is room for.
        let policy = bench.install("ordinary", [Rule::token_bucket("minute", Quota::per_minute(10))]);
        flood(&bench, &policy, FLOOD, |number, told| {
            assert!(told.is_allowed(), "a newcomer finds his whole limit: {told:?}");
            if number % 256 == 0 {
                bench.clock.advance(Micros(3 * 256));
            }
            if number % 10_000 == 0 {
                highest = highest.max(bench.store.bytes());
                assert!(highest <= 32 * MIB, "{highest} bytes after {number} keys");
            }
        });
        let stats = bench.store.stats();
        assert_eq!(stats.overflowed, 0, "there was always somebody to let go");
        assert!(stats.evicted > 0);
        assert_eq!(stats.expired + stats.evicted + bench.store.len() as u64, FLOOD, "every key went one way");
    });
    assert!(highest > 24 * MIB, "a budget is there to be used: {highest} bytes");
    let most = usize::try_from(measured.bytes_max).unwrap();
    assert!(most <= 32 * MIB + BESIDE, "the allocator saw {most} bytes");
}

/// One permit a day: everybody seen is used up at once, so nobody may be let go, and newcomers share.
#[test]
fn ten_million_keys_that_are_used_up_at_once_push_nobody_out() {
    let measured = allocation_counter::measure(|| {
        let bench = Bench::with(MemoryConfig::default().budget_bytes(32 * MIB));
        let policy = bench.install("daily", [Rule::token_bucket("day", Quota::per_day(1))]);
        let (mut own, mut shared) = (0, 0);
        flood(&bench, &policy, FLOOD, |number, told| {
            match told.source {
                Source::Overflow => shared += 1,
                _ => {
                    assert!(told.is_allowed(), "number {number} is new: {told:?}");
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
        assert!(own > 400_000 && shared > 0, "{own} keys of their own, {shared} shared");
        // The first ones are remembered to the last.
        let mut key = String::new();
        for number in 0..1_000 {
            let told = bench.take(&policy, flood_key(&mut key, number), 1);
            assert!(!told.is_allowed() && told.source == Source::Store, "number {number}: {told:?}");
        }
    });
    let most = usize::try_from(measured.bytes_max).unwrap();
    assert!(most <= 32 * MIB + BESIDE, "the allocator saw {most} bytes");
}

/// Long keys and lists lie on the heap, and count.
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
                Rule::fixed_window("day", Quota::per_day(1_000)).align(Align::FirstRequest),
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
                let told = bench.take(&policy, &key, 1);
                assert!(told.is_allowed(), "number {number}, among thousands that may go: {told:?} by {rules:?}");
                if number % 1_000 == 0 {
                    let bytes = bench.store.bytes();
                    assert!(bytes <= 4 * MIB, "{bytes} bytes after {number} keys of {rules:?}");
                }
            }
            assert!(bench.store.bytes() > 2 * MIB);
        });
        let most = usize::try_from(measured.bytes_max).unwrap();
        assert!(most <= 4 * MIB + BESIDE, "the allocator saw {most} bytes for {rules:?}");
    }
}

/// What the store says it holds is what the allocator gave it.
#[test]
fn bytes_are_what_the_allocator_gave() {
    let minute = || Rule::token_bucket("minute", Quota::per_minute(10));
    let shapes: [(&str, Vec<Rule>); 5] = [
        ("u", vec![minute()]),
        ("somebody whose name is rather long ", vec![minute()]),
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
                bench.clock.advance(Micros(1));
                assert!(bench.take(&policy, &key, 1).is_allowed());
            }
        });
        let told = bench.store.bytes() - before;
        let given = usize::try_from(measured.bytes_current).unwrap();
        assert!(told.abs_diff(given) <= given / 50 + 4_096, "told {told}, given {given} for {rules:?}");
    }
}

/// Every way of being limited outlives a flood of strangers.
#[test]
fn whoever_is_limited_is_still_limited_after_the_flood() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    let keys = |what: &str| (0..50).map(|number| format!("{what} {number}")).collect::<Vec<_>>();
    for key in keys("exhausted") {
        assert!(bench.take(&policy, &key, 10).is_allowed());
    }
    for key in keys("denied") {
        // Two are left, but one who asks for three was told to come back.
        assert!(bench.take(&policy, &key, 8).is_allowed() && !bench.take(&policy, &key, 3).is_allowed());
    }
    for key in keys("blocked") {
        let _ = bench.decide(&policy, &key, Verb::Block { span: Micros::DAY });
    }
    for key in keys("waited for") {
        assert!(bench.take(&policy, &key, 10).is_allowed());
        let told = bench.decide(&policy, &key, Verb::Take(Take::within(1, Micros::HOUR)));
        assert_eq!(told.wait(), Micros::from_secs(360));
    }
    for key in keys("in debt") {
        let _ = bench.decide(&policy, &key, Verb::Penalize { cost: 25 });
    }
    // Strangers who use nine of ten: all others are nearer to rest, and would be let go first.
    flood_of(&bench, &policy, 300_000, 9, |_, told| assert!(told.is_allowed(), "{told:?}"));
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
        let told = bench.decide(&policy, &key, Verb::Take(Take::within(1, Micros::HOUR)));
        assert_eq!(told.wait(), Micros::from_secs(720), "{key}: behind the one who waits already");
    }
    for key in keys("in debt") {
        assert_eq!(bench.peek(&policy, &key).reset_after(), Micros::from_secs(25 * 360), "{key}");
    }
}

/// Refused as one of several, or under several rules: limited all the same.
#[test]
fn whoever_was_refused_together_with_others_is_still_limited_after_the_flood() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    let keys: Vec<String> = (0..50).map(|number| format!("pair {number}")).collect();
    for pair in keys.chunks(2) {
        let pair = [pair[0].as_str(), pair[1].as_str()];
        assert!(bench.take_all(&policy, &pair, 8).is_allowed());
        assert!(!bench.take_all(&policy, &pair, 3).is_allowed());
    }
    flood_of(&bench, &policy, 300_000, 9, |_, told| assert!(told.is_allowed(), "{told:?}"));
    for key in &keys {
        assert!(!bench.take(&policy, key, 3).is_allowed(), "{key} was told to wait");
    }
}

/// Between two decisions at most a handful of keys go: nobody waits for a sweep.
#[test]
fn cleaning_is_done_in_small_steps() {
    // Eight that may go for one newcomer, three slots looked at for it, one for the decision.
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
        flood(&bench, &policy, 150_000, |number, told| {
            assert!(told.is_allowed(), "number {number}, among thousands that may go: {told:?}");
            if number % 50_000 == 49_999 {
                bench.clock.advance(Micros::HOUR); // everybody is as good as new at once
            }
            let now = gone();
            most = most.max(now - before);
            before = now;
        });
        assert!(most <= MOST, "{most} keys went in one step");
        assert!(before > 100_000, "{before} went altogether");
    }
}

/// Keys that rest leave while others are asked for, and their memory with them.
#[test]
fn rested_keys_leave_while_others_are_busy() {
    let shapes = [
        vec![Rule::token_bucket("minute", Quota::per_minute(10))],
        vec![Rule::sliding_log("minute", Quota::per_minute(10))],
        vec![
            Rule::token_bucket("minute", Quota::per_minute(10)),
            Rule::fixed_window("hour", Quota::per_hour(100)).align(Align::FirstRequest),
        ],
    ];
    for rules in shapes {
        let bench = Bench::with(MemoryConfig::default().shards(4));
        let policy = bench.install("policy", rules.clone());
        flood(&bench, &policy, 100_000, |_, told| assert!(told.is_allowed()));
        let (keys, bytes) = (bench.store.len(), bench.store.bytes());
        assert_eq!(keys, 100_000);

        bench.clock.advance(Micros::DAY);
        let busy: Vec<String> = (0..500).map(|number| format!("busy {number}")).collect();
        // Known keys look at one slot in 32 decisions on average, so eight million see every slot once. Hot ones go by the
        // clock, and a shard that few of the busy keys fall into is walked by those few.
        for turn in 0..32_000_000_usize {
            bench.clock.advance(Micros(1));
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

/// The same, called from a timer instead.
#[test]
fn a_sweep_lets_rested_keys_go_and_no_others() {
    let bench = Bench::roomy();
    let policy = bench.install("policy", [Rule::token_bucket("minute", Quota::per_minute(10))]);
    flood(&bench, &policy, 50_000, |_, told| assert!(told.is_allowed()));
    bench.store.sweep(usize::MAX);
    assert_eq!(bench.store.len(), 50_000);
    bench.clock.advance(Micros::MINUTE);
    assert!(bench.take(&policy, "still here", 5).is_allowed());
    // A look at a slot from which a key has just gone is a look, too, so one round may not be enough.
    for _ in 0..4 {
        bench.store.sweep(usize::MAX);
    }
    assert_eq!(bench.store.len(), 1);
    assert_eq!(bench.remaining(&policy, "still here"), 5);
}

/// A log that grows makes others go, not itself: what it holds is what keeps its key within its limit.
#[test]
fn growing_lists_push_strangers_out_and_keep_their_own_count() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB).shards(1));
    let policy = bench.install("policy", [Rule::sliding_log("hour", Quota::per_hour(10_000))]);
    flood(&bench, &policy, 20_000, |_, told| assert!(told.is_allowed()));
    for turn in 1..=10_000 {
        bench.clock.advance(Micros(1));
        let told = bench.take(&policy, "hoarder", 1);
        assert!(told.is_allowed());
        assert_eq!(told.remaining(), 10_000 - turn, "nothing of its own is forgotten");
        // A list doubles at once and others go one by one, so for a while it is there on top of them.
        let own = usize::try_from(2 * 16 * turn).unwrap();
        assert!(bench.store.bytes() <= MIB + own, "{} bytes after {turn}", bench.store.bytes());
    }
    assert!(bench.store.bytes() <= MIB);
    assert!(!bench.take(&policy, "hoarder", 1).is_allowed());
}

/// Somebody waits for every key: that takes more room than a meter, and the budget still holds.
#[test]
fn waiting_for_every_key_stays_within_the_budget() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(MIB).shards(1));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(1))]);
    let mut key = String::new();
    flood(&bench, &policy, 50_000, |_, _| ());
    let known = bench.store.len();
    for number in 0..50_000 {
        let wait = Verb::Take(Take::within(1, Micros::DAY));
        let _ = bench.decide(&policy, flood_key(&mut key, number), wait);
        let bytes = bench.store.bytes();
        assert!(bytes <= MIB, "{bytes} bytes after {number} waiters, {known} keys");
    }
}
