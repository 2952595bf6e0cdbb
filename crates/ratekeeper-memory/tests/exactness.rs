//! Exactness under threads: one hot key, many threads, a stopped clock.
//!
//! With a stopped clock nothing is refilled, so the number of admitted permits is exactly the limit, for any number of
//! threads in any order. One more would be a race; one fewer would be a lost permit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::{sync::mpsc, thread, time::Duration};

use ratekeeper_core::{Align, Ask, LeaseId, OnQuotaChange, Policy, Quota, Rule, Span, Store, Take, Verb, Verdict};
use ratekeeper_memory::{InstalledPolicy, ManualClock, MemoryStore};
use ratekeeper_testkit::random::Random;
use support::Bench;

const THREADS: u64 = 8;
const TRIES: u64 = 50_000;
const LIMIT: u64 = 10_000;
/// Costs of 1 are frequent, so that the last permits are used.
const COSTS: [u64; 6] = [1, 1, 2, 3, 7, 40];

/// Results of one thread, or of all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Tally {
    permits: u64,
    allowed: u64,
    denied: u64,
    never: u64,
}

impl Tally {
    fn count(&mut self, cost: u64, verdict: Verdict) {
        match verdict {
            Verdict::Allow { .. } => {
                self.allowed += 1;
                self.permits += cost;
            }
            Verdict::Deny { .. } => self.denied += 1,
            Verdict::Never => self.never += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.permits += other.permits;
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.never += other.never;
    }
}

/// Runs the closure in all threads and adds up the results. A deadlock fails the test after a timeout instead of
/// blocking it.
fn in_threads(job: impl Fn(u64) -> Tally + Clone + Send + 'static) -> Tally {
    let (sender, receiver) = mpsc::channel();
    for thread in 0..THREADS {
        let (job, sender) = (job.clone(), sender.clone());
        thread::spawn(move || sender.send(job(thread)));
    }
    let mut sum = Tally::default();
    for _ in 0..THREADS {
        sum.add(receiver.recv_timeout(Duration::from_secs(120)).expect("no deadlock"));
    }
    sum
}

/// All threads take from one key, each with different leases.
fn hammer(
    bench: &Bench,
    policy: &InstalledPolicy,
    tries: u64,
    cost: impl Fn(&mut Random) -> u64 + Clone + Send + 'static,
) -> Tally {
    let (store, policy): (MemoryStore<ManualClock>, _) = (bench.store.clone(), policy.clone());
    in_threads(move |thread| {
        let mut random = Random::new(thread);
        let mut tally = Tally::default();
        for turn in 0..tries {
            let cost = cost(&mut random);
            let take = Take::now().with_lease(LeaseId(thread * tries + turn));
            let decision = store.decide_now(&[Ask::new(&policy, "hot").cost(cost)], &Verb::Take(take)).unwrap();
            tally.count(cost, decision.verdict);
        }
        tally
    })
}

/// One permit at a time, then mixed costs. Costs of 1 use the last permits, so the sum is exact in both cases.
fn admits_exactly_the_limit(rule: Rule, tries: u64) {
    let limit = rule.quota().limit();
    for mixed in [false, true] {
        let bench = Bench::roomy();
        let policy = bench.install("hot", [rule.clone()]);
        let tally = hammer(&bench, &policy, tries, move |random| if mixed { random.pick(&COSTS) } else { 1 });
        assert_eq!(tally.permits, limit, "{tally:?} under {rule:?}");
        assert_eq!(bench.remaining(&policy, "hot"), 0);

        assert_eq!(tally.allowed + tally.denied, THREADS * tries);
    }
}

#[test]
fn a_token_bucket_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::token_bucket("all", Quota::per_day(LIMIT)), TRIES);
}

#[test]
fn a_stepwise_bucket_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::token_bucket_stepwise("all", Quota::per_day(LIMIT)), TRIES);
}

#[test]
fn a_fixed_window_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::fixed_window_aligned("all", Quota::per_day(LIMIT), Align::FirstRequest), TRIES);
}

#[test]
fn a_sliding_log_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::sliding_log("all", Quota::per_day(LIMIT)), TRIES);
}

#[test]
fn a_sliding_counter_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::sliding_counter("all", Quota::per_day(LIMIT)), TRIES);
}

/// Every decision scans the list of leases, so limit and tries are lower.
#[test]
fn a_concurrency_rule_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::concurrency("all", LIMIT / 10, Duration::from_secs(3600)), TRIES / 10);
}

/// Three rules share the key: the tightest determines the admitted permits, and the others have counted the same
/// number.
#[test]
fn three_rules_admit_exactly_what_the_tightest_allows() {
    let bench = Bench::roomy();
    let rules = [
        Rule::token_bucket("burst", Quota::per_day(2 * LIMIT)),
        Rule::sliding_counter("tight", Quota::per_day(LIMIT)),
        Rule::fixed_window_aligned("wide", Quota::per_day(3 * LIMIT), Align::FirstRequest),
    ];
    let policy = bench.install("hot", rules);
    assert_eq!(hammer(&bench, &policy, TRIES, |_| 1).permits, LIMIT);
    let left: Vec<u64> = bench.peek(&policy, "hot").rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(left, [LIMIT, 0, 2 * LIMIT]);
}

/// Every release frees exactly one permit.
#[test]
fn leases_given_up_are_taken_again_exactly_as_often() {
    let bench = Bench::roomy();
    let policy = bench.install("hot", [Rule::concurrency("places", 3, Duration::from_secs(3600))]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        let ask = Ask::new(&asked_under, "hot");
        for turn in 0..TRIES / 4 {
            let lease = LeaseId(thread * TRIES + turn);
            let decision = store.decide_now(&[ask], &Verb::Take(Take::now().with_lease(lease))).unwrap();
            tally.count(1, decision.verdict);
            if decision.is_allowed() {
                assert!(decision.rules[0].remaining < 3, "a holder sees its permit taken");
                let given_up = Verb::Release(ratekeeper_core::Release::Lease(lease));
                assert_eq!(store.decide_now(&[ask], &given_up).unwrap().lease, Some(lease));
            }
        }
        tally
    });
    assert!(tally.allowed > 0);
    assert_eq!(bench.remaining(&policy, "hot"), 3);
}

/// Every waiter gets a different time: one per millisecond, without duplicates or gaps.
#[test]
fn reservations_from_many_threads_never_share_a_moment() {
    let bench = Bench::roomy();
    let policy = bench.install("line", [Rule::token_bucket("even", Quota::per_second(1_000).burst(1))]);
    let (sender, receiver) = mpsc::channel();
    let store = bench.store.clone();
    let each = 2_000;
    in_threads(move |_| {
        for _ in 0..each {
            let take = Verb::Take(Take::within(Span::HOUR));
            let decision = store.decide_now(&[Ask::new(&policy, "hot")], &take).unwrap();
            assert!(decision.is_allowed());
            sender.send(decision.verdict.wait()).unwrap();
        }
        Tally::default()
    });
    let mut waits: Vec<Span> = receiver.try_iter().collect();
    waits.sort_unstable();
    let even: Vec<Span> = (0..THREADS * each).map(Span::from_millis).collect();
    assert_eq!(waits, even);
}

/// Threads name the same keys in every order; each key is charged for exactly the admitted requests.
#[test]
fn several_keys_in_any_order_neither_lock_up_nor_lose_count() {
    let bench = Bench::roomy();
    let wide = bench.install("wide", [Rule::token_bucket("all", Quota::per_day(5_000))]);
    let tight = bench.install("tight", [Rule::sliding_log("all", Quota::per_day(3_000))]);
    let (store, both) = (bench.store.clone(), (wide.clone(), tight.clone()));
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        let asks =
            [Ask::new(&both.0, "tenant"), Ask::new(&both.1, "a user whose name is long"), Ask::new(&both.0, "route")];
        for turn in 0..TRIES / 10 {
            let mut asks = asks;
            asks.rotate_left(usize::try_from((thread + turn) % 3).unwrap());
            if thread % 2 == 0 {
                asks.reverse();
            }
            tally.count(1, store.decide_now(&asks, &Verb::Take(Take::now())).unwrap().verdict);
        }
        tally
    });
    assert_eq!(tally.permits, 3_000);
    assert_eq!(bench.remaining(&wide, "tenant"), 2_000);
    assert_eq!(bench.remaining(&wide, "route"), 2_000);
    assert_eq!(bench.remaining(&tight, "a user whose name is long"), 0);
}

/// Concurrent requests for single keys and for pairs of them are charged to the same state.
#[test]
fn pairs_and_single_keys_share_their_books() {
    let bench = Bench::roomy();
    let policy = bench.install("all", [Rule::fixed_window_aligned("all", Quota::per_day(20_000), Align::FirstRequest)]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        let (a, b) = (Ask::new(&asked_under, "a"), Ask::new(&asked_under, "b"));
        let both = if thread % 2 == 0 { [a, b] } else { [b, a] };
        for turn in 0..TRIES / 5 {
            let asks = if turn % 4 == 0 { &both[..] } else { &both[..1] };
            let decision = store.decide_now(asks, &Verb::Take(Take::now())).unwrap();
            tally.count(asks.len() as u64, decision.verdict);
        }
        tally
    });
    let used = 40_000 - bench.remaining(&policy, "a") - bench.remaining(&policy, "b");
    assert_eq!(tally.permits, used);
    assert!(tally.denied > 0 && used > 30_000, "{tally:?}: the limit was reached");
}

/// Concurrent takes, peeks, refunds, requests for several keys and policy changes: wherever the store keeps a busy key,
/// no permit is lost or counted twice.
#[test]
fn busy_keys_keep_count_while_everything_happens_to_them() {
    const KEYS: [&str; 4] = ["a", "b", "sixteen bytes ok", "a key of more than sixteen bytes"];
    let bench = Bench::roomy();
    let rule = || Rule::token_bucket("all", Quota::per_day(100_000_000));
    let policy = bench.install("busy", [rule()]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut random = Random::new(thread);
        let mut tally = Tally::default();
        let mut policy = asked_under.clone();
        let take = Verb::Take(Take::now());
        for turn in 0..TRIES {
            let index = usize::try_from(random.below(4)).unwrap();
            let ask = Ask::new(&policy, KEYS[index]);
            match (thread, random.below(16)) {
                // One thread installs the same policy repeatedly and uses the latest handle.
                (0, 0) if turn % 16 == 0 => {
                    policy = store.install(Policy::new("busy", [rule()]).unwrap(), OnQuotaChange::Keep).unwrap();
                }
                (1, _) => assert!(store.decide_now(&[ask], &Verb::Peek).unwrap().is_allowed()),
                (2 | 3, 0..=3) => {
                    let other = Ask::new(&policy, KEYS[(index + 1) % 4]);
                    tally.count(2, store.decide_now(&[ask, other], &take).unwrap().verdict);
                }
                // These threads refund only what they took, so a refund never exceeds what is used.
                (4 | 5, 0..=3) if tally.permits > 0 => {
                    let taken = store.decide_now(&[ask], &take).unwrap();
                    assert!(taken.is_allowed());
                    let _ = store.decide_now(&[ask], &Verb::Refund { at: None }).unwrap();
                }
                _ => tally.count(1, store.decide_now(&[ask], &take).unwrap().verdict),
            }
        }
        tally
    });
    assert_eq!((tally.denied, tally.never), (0, 0));
    let left: u64 = KEYS.iter().map(|key| bench.remaining(&policy, key)).sum();
    assert_eq!(tally.permits, 400_000_000 - left);
}

/// Used permits stay used, up to the lower limit, while a limit is lowered and raised under load.
#[test]
fn a_limit_that_changes_under_fire_is_kept() {
    let bench = Bench::roomy();
    let rule = |limit| Rule::fixed_window_aligned("all", Quota::per_day(limit), Align::FirstRequest);
    let policy = bench.install("busy", [rule(LIMIT)]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        for turn in 0..TRIES {
            if thread == 0 && turn % 64 == 0 {
                let limit = if turn % 128 == 0 { LIMIT / 2 } else { LIMIT };
                store.install(Policy::new("busy", [rule(limit)]).unwrap(), OnQuotaChange::Keep).unwrap();
            }
            let ask = Ask::new(&asked_under, "hot");
            tally.count(1, store.decide_now(&[ask], &Verb::Take(Take::now())).unwrap().verdict);
        }
        tally
    });
    // A change to the lower limit cuts the used permits to it; after the change back, the rest can be taken again.
    assert!(tally.permits >= LIMIT, "{tally:?}");
    bench.install("busy", [rule(LIMIT)]);
    assert!(bench.remaining(&policy, "hot") <= LIMIT / 2, "used permits stay used");
}
