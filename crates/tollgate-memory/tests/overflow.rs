//! When only limited keys are left, newcomers are counted together: the answer says so, and the counting is right.
//!
//! Sharing one counter is hard on honest newcomers, but it never lets through more than one key's limit per shard, and
//! nobody who was limited before is let off. That holds for every verb and for several keys at once.
//!
//! Where the store is told to admit newcomers instead, they are answered like keys never seen, and nothing else changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use support::Bench;
use tollgate_core::{Ask, LeaseId, Micros, Quota, Release, Rule, Source, Take, Verb, Verdict};
use tollgate_memory::{InstalledPolicy, MemoryConfig, WhenFull};

/// A store of one shard, full of keys that are used up.
fn full(rule: Rule) -> (Bench, InstalledPolicy) {
    full_of(rule, WhenFull::Refuse)
}

fn full_of(rule: Rule, when_full: WhenFull) -> (Bench, InstalledPolicy) {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(64 << 10).shards(1).when_full(when_full));
    let filler = bench.install("filler", [Rule::token_bucket("year", Quota::per_day(1))]);
    for number in 0..10_000 {
        let told = bench.take(&filler, &format!("filler {number}"), 1);
        if told.source == Source::Overflow {
            let policy = bench.install("policy", [rule]);
            return (bench, policy);
        }
    }
    panic!("64 KiB held ten thousand keys");
}

fn hourly() -> (Bench, InstalledPolicy) {
    full(Rule::token_bucket("hour", Quota::per_hour(10)))
}

#[test]
fn newcomers_share_one_limit_and_are_told_so() {
    let (bench, policy) = hourly();
    let told: Vec<_> = (0..30).map(|number| bench.take(&policy, &format!("new {number}"), 1)).collect();
    assert!(told.iter().all(|told| told.source == Source::Overflow));
    assert_eq!(told.iter().filter(|told| told.is_allowed()).count(), 10);
    assert_eq!(bench.store.stats().overflowed, 31, "the filler that found no room, and these");
}

#[test]
fn several_newcomers_in_one_request_are_all_charged() {
    let (bench, policy) = hourly();
    let told = bench.take_all(&policy, &["new a", "new b"], 2);
    assert!(told.is_allowed() && told.source == Source::Overflow);
    assert_eq!(bench.take(&policy, "new c", 1).remaining(), 5, "two for each of the two, one for the third");
}

#[test]
fn a_newcomer_beside_a_known_key_is_charged_like_it() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(64 << 10).shards(1));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    assert!(bench.take(&policy, "known", 1).is_allowed());
    assert!(!bench.take(&policy, "known", 10).is_allowed());
    for number in 0..5_000 {
        let _ = bench.take(&policy, &format!("filler {number}"), 10);
    }
    let told = bench.take_all(&policy, &["known", "stranger"], 2);
    assert_eq!(told.source, Source::Overflow);
    assert_eq!(bench.remaining(&policy, "known"), if told.is_allowed() { 7 } else { 9 });
}

/// Keys that are limited keep their place while they are decided about together with newcomers.
#[test]
fn known_keys_keep_their_place_beside_newcomers() {
    let rule = || Rule::sliding_log("hour", Quota::per_hour(10));
    let bench = Bench::with(MemoryConfig::default().budget_bytes(64 << 10).shards(1));
    let policy = bench.install("policy", [rule()]);
    let known: Vec<String> = (0..20).map(|number| format!("known {number}")).collect();
    for key in &known {
        assert!(bench.take(&policy, key, 9).is_allowed() && !bench.take(&policy, key, 2).is_allowed());
    }
    for number in 0..3_000 {
        let _ = bench.take(&policy, &format!("filler {number}"), 10);
    }
    for (number, key) in known.iter().enumerate() {
        let strangers = [format!("x{number}"), format!("y{number}")];
        let _ = bench.take_all(&policy, &[key, &strangers[0], &strangers[1]], 1);
        let _ = bench.take_all(&policy, &[&strangers[0], key], 1);
    }
    for key in &known {
        let told = bench.peek(&policy, key);
        assert!(told.remaining() <= 1, "{key} used nine of ten before: {told:?}");
    }
}

/// Whatever newcomers do in pairs, together they get one limit and no more.
#[test]
fn pairs_of_newcomers_do_not_wipe_what_was_shared() {
    let (bench, policy) = hourly();
    let mut permits = 0;
    for number in 0..40 {
        let pair = [format!("new a{number}"), format!("new b{number}")];
        permits += 2 * u64::from(bench.take_all(&policy, &[&pair[0], &pair[1]], 1).is_allowed());
        permits += u64::from(bench.take(&policy, &pair[0], 1).is_allowed());
    }
    assert_eq!(permits, 10);
}

/// A place that was taken among newcomers is given up there, not only when its lease ends.
#[test]
fn a_lease_taken_without_room_can_be_renewed_and_released() {
    let (bench, policy) = full(Rule::concurrency("places", 2, Duration::from_secs(60)));
    let hold = |lease| bench.decide(&policy, "new", Verb::Take(Take::now(1).held_as(LeaseId(lease))));
    assert!(hold(1).is_allowed() && hold(2).is_allowed() && !hold(3).is_allowed());
    assert_eq!(bench.decide(&policy, "new", Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    assert_eq!(bench.decide(&policy, "new", Verb::Release(Release::Lease(LeaseId(1)))).lease, Some(LeaseId(1)));
    assert!(hold(3).is_allowed());
}

/// Blocking one newcomer must not shut out all others, of whom nobody complained.
#[test]
fn blocking_a_newcomer_blocks_no_other() {
    let (bench, policy) = hourly();
    let _ = bench.decide(&policy, "abuser", Verb::Block { span: Micros::DAY });
    assert!(bench.take(&policy, "somebody else", 1).is_allowed());
}

/// Waiting works there, too: moments are handed out one after another.
#[test]
fn newcomers_wait_in_one_line() {
    let (bench, policy) = full(Rule::token_bucket("second", Quota::per_second(1)));
    let wait = |key: &str| {
        let ask = Ask::new(&policy, key);
        bench.store.decide_now(&[ask], &Verb::Take(Take::within(1, Micros::HOUR))).unwrap().wait()
    };
    let waits = ["a", "b", "c"].map(wait);
    assert_eq!(waits, [0, 1, 2].map(Micros::from_secs));
}

/// Room that becomes free is used: a newcomer of tomorrow has a counter of his own again.
#[test]
fn the_plight_ends_when_keys_rest() {
    let (bench, policy) = hourly();
    assert_eq!(bench.take(&policy, "new", 1).source, Source::Overflow);
    bench.clock.advance(Micros(2 * Micros::DAY.0));
    let told = bench.take(&policy, "new", 1);
    assert_eq!((told.source, told.remaining()), (Source::Store, 9));
}

/// Each newcomer is answered like a key never seen, however often it comes; the answer and the counts say so.
#[test]
fn newcomers_can_be_admitted_instead() {
    let (bench, policy) = full_of(Rule::token_bucket("hour", Quota::per_hour(10)), WhenFull::Admit);
    let before = bench.store.stats();
    for number in 0..100 {
        let told = bench.take(&policy, &format!("new {}", number % 3), 10);
        assert!(told.is_allowed() && told.source == Source::Overflow && told.remaining() == 0, "{told:?}");
    }
    let told = bench.take_all(&policy, &["new a", "new b"], 10);
    assert!(told.is_allowed() && told.source == Source::Overflow);
    assert_eq!(bench.take(&policy, "new", 11).verdict, Verdict::Never, "no key may ever have that much");
    let after = bench.store.stats();
    assert_eq!((after.overflowed - before.overflowed, after.unenforced - before.unenforced), (101, 101));
    assert_eq!(after.evicted, before.evicted, "no limited key was evicted for them");
    assert!(bench.store.bytes() <= bench.store.budget_bytes());
}

/// Admitting newcomers lets off no key that is known, alone or together with a newcomer.
#[test]
fn known_keys_stay_limited_while_newcomers_are_admitted() {
    let (bench, policy) = full_of(Rule::token_bucket("hour", Quota::per_hour(10)), WhenFull::Admit);
    let filler = bench.install("filler", [Rule::token_bucket("year", Quota::per_day(1))]);
    assert!(!bench.take(&filler, "filler 0", 1).is_allowed());
    let asks = [Ask::new(&filler, "filler 0"), Ask::new(&policy, "new")];
    let told = bench.store.decide_now(&asks, &Verb::Take(Take::now(1))).unwrap();
    assert!(!told.is_allowed());
    bench.clock.advance(Micros(2 * Micros::DAY.0));
    let told = bench.take(&policy, "new", 1);
    assert_eq!((told.source, told.remaining()), (Source::Store, 9), "with room again, newcomers are counted");
}
