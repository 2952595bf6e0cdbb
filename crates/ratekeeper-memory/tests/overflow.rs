//! Overflow: when every stored key is limited, new keys share one count per policy, and decisions report it.
//!
//! The shared count denies some new keys early, but a shard never admits more than one key's limit for all of them, and
//! no limited key is evicted. This holds for every verb and for several keys at once.
//!
//! With `WhenFull::Admit` new keys are decided like keys in their initial state, and nothing else changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::time::Duration;

use ratekeeper_core::{Ask, LeaseId, Quota, Release, Rule, Source, Span, Take, Verb, Verdict};
use ratekeeper_memory::{InstalledPolicy, MemoryConfig, WhenFull};
use support::Bench;

/// A store of one shard, full of exhausted keys.
fn full(rule: Rule) -> (Bench, InstalledPolicy) {
    full_of(rule, WhenFull::Refuse)
}

fn full_of(rule: Rule, when_full: WhenFull) -> (Bench, InstalledPolicy) {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(64 << 10).shards(1).when_full(when_full));
    let filler = bench.install("filler", [Rule::token_bucket("year", Quota::per_day(1))]);
    for number in 0..10_000 {
        let decision = bench.take(&filler, &format!("filler {number}"), 1);
        if decision.source == Source::Overflow {
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
fn new_keys_share_one_limit_and_the_source_is_overflow() {
    let (bench, policy) = hourly();
    let decisions: Vec<_> = (0..30).map(|number| bench.take(&policy, &format!("new {number}"), 1)).collect();
    assert!(decisions.iter().all(|decision| decision.source == Source::Overflow));
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 10);
    assert_eq!(bench.store.stats().overflowed, 31, "the filler that found no room, and these");
}

#[test]
fn several_new_keys_in_one_request_are_all_charged() {
    let (bench, policy) = hourly();
    let decision = bench.take_all(&policy, &["new a", "new b"], 2);
    assert!(decision.is_allowed() && decision.source == Source::Overflow);
    assert_eq!(bench.take(&policy, "new c", 1).remaining(), 5, "two for each of the two, one for the third");
}

#[test]
fn a_new_key_is_charged_together_with_a_known_key() {
    let bench = Bench::with(MemoryConfig::default().budget_bytes(64 << 10).shards(1));
    let policy = bench.install("policy", [Rule::token_bucket("hour", Quota::per_hour(10))]);
    assert!(bench.take(&policy, "known", 1).is_allowed());
    assert!(!bench.take(&policy, "known", 10).is_allowed());
    for number in 0..5_000 {
        let _ = bench.take(&policy, &format!("filler {number}"), 10);
    }
    let decision = bench.take_all(&policy, &["known", "new"], 2);
    assert_eq!(decision.source, Source::Overflow);
    assert_eq!(bench.remaining(&policy, "known"), if decision.is_allowed() { 7 } else { 9 });
}

/// Limited keys keep their state while they are decided together with new keys.
#[test]
fn known_keys_keep_their_state_when_decided_with_new_keys() {
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
        let new_keys = [format!("x{number}"), format!("y{number}")];
        let _ = bench.take_all(&policy, &[key, &new_keys[0], &new_keys[1]], 1);
        let _ = bench.take_all(&policy, &[&new_keys[0], key], 1);
    }
    for key in &known {
        let decision = bench.peek(&policy, key);
        assert!(decision.remaining() <= 1, "{key} used nine of ten before: {decision:?}");
    }
}

/// Pairs of new keys get one limit in total.
#[test]
fn pairs_of_new_keys_do_not_reset_the_shared_count() {
    let (bench, policy) = hourly();
    let mut permits = 0;
    for number in 0..40 {
        let pair = [format!("new a{number}"), format!("new b{number}")];
        permits += 2 * u64::from(bench.take_all(&policy, &[&pair[0], &pair[1]], 1).is_allowed());
        permits += u64::from(bench.take(&policy, &pair[0], 1).is_allowed());
    }
    assert_eq!(permits, 10);
}

/// A lease in the shared count can be released before it expires.
#[test]
fn a_lease_taken_without_room_can_be_renewed_and_released() {
    let (bench, policy) = full(Rule::concurrency("places", 2, Duration::from_secs(60)));
    let hold = |lease| bench.decide(&policy, "new", Verb::Take(Take::now().with_lease(LeaseId(lease))));
    assert!(hold(1).is_allowed() && hold(2).is_allowed() && !hold(3).is_allowed());
    assert_eq!(bench.decide(&policy, "new", Verb::Heartbeat(LeaseId(1))).lease, Some(LeaseId(1)));
    assert_eq!(bench.decide(&policy, "new", Verb::Release(Release::Lease(LeaseId(1)))).lease, Some(LeaseId(1)));
    assert!(hold(3).is_allowed());
}

/// Blocking one new key must not block all others.
#[test]
fn blocking_a_new_key_blocks_no_other() {
    let (bench, policy) = hourly();
    let _ = bench.decide(&policy, "abuser", Verb::Block { span: Span::DAY });
    assert!(bench.take(&policy, "another", 1).is_allowed());
}

/// Reservations work in the shared count, too.
#[test]
fn new_keys_wait_in_one_queue() {
    let (bench, policy) = full(Rule::token_bucket("second", Quota::per_second(1)));
    let wait = |key: &str| {
        let ask = Ask::new(&policy, key);
        bench.store.decide_now(&[ask], &Verb::Take(Take::within(Span::HOUR))).unwrap().verdict.wait()
    };
    let waits = ["a", "b", "c"].map(wait);
    assert_eq!(waits, [0, 1, 2].map(Span::from_secs));
}

/// When there is room again, a new key has a separate count.
#[test]
fn overflow_ends_when_keys_are_back_in_their_initial_state() {
    let (bench, policy) = hourly();
    assert_eq!(bench.take(&policy, "new", 1).source, Source::Overflow);
    bench.clock.advance(Span::from_micros(2 * Span::DAY.as_micros()));
    let decision = bench.take(&policy, "new", 1);
    assert_eq!((decision.source, decision.remaining()), (Source::Store, 9));
}

/// Each new key is decided like a key in its initial state, every time; source and statistics report it.
#[test]
fn new_keys_can_be_admitted_instead() {
    let (bench, policy) = full_of(Rule::token_bucket("hour", Quota::per_hour(10)), WhenFull::Admit);
    let before = bench.store.stats();
    for number in 0..100 {
        let decision = bench.take(&policy, &format!("new {}", number % 3), 10);
        assert!(
            decision.is_allowed() && decision.source == Source::Overflow && decision.remaining() == 0,
            "{decision:?}"
        );
    }
    let decision = bench.take_all(&policy, &["new a", "new b"], 10);
    assert!(decision.is_allowed() && decision.source == Source::Overflow);
    assert_eq!(bench.take(&policy, "new", 11).verdict, Verdict::Never, "the cost exceeds the limit");
    let after = bench.store.stats();
    assert_eq!((after.overflowed - before.overflowed, after.unenforced - before.unenforced), (101, 101));
    assert_eq!(after.evicted, before.evicted, "no limited key was evicted for them");
    assert!(bench.store.bytes() <= bench.store.budget_bytes());
}

/// Admitting new keys releases no known key, alone or together with a new key.
#[test]
fn known_keys_stay_limited_while_new_keys_are_admitted() {
    let (bench, policy) = full_of(Rule::token_bucket("hour", Quota::per_hour(10)), WhenFull::Admit);
    let filler = bench.install("filler", [Rule::token_bucket("year", Quota::per_day(1))]);
    assert!(!bench.take(&filler, "filler 0", 1).is_allowed());
    let asks = [Ask::new(&filler, "filler 0"), Ask::new(&policy, "new")];
    let decision = bench.store.decide_now(&asks, &Verb::Take(Take::now())).unwrap();
    assert!(!decision.is_allowed());
    bench.clock.advance(Span::from_micros(2 * Span::DAY.as_micros()));
    let decision = bench.take(&policy, "new", 1);
    assert_eq!((decision.source, decision.remaining()), (Source::Store, 9), "with room again, new keys are counted");
}
