//! Exact under threads: one hot key, many askers, a clock that stands still.
//!
//! With the clock still nothing refills, so what may pass is known to the last permit: the limit, whoever asks, in
//! whatever order, in however many threads. One permit more would be a race; one fewer would be a permit lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::{sync::mpsc, thread, time::Duration};

use support::Bench;
use tollgate_core::{Align, Ask, Carry, LeaseId, Micros, Policy, Quota, Rule, Store, Take, Verb, Verdict};
use tollgate_memory::{InstalledPolicy, ManualClock, MemoryStore};
use tollgate_testkit::random::Random;

const THREADS: u64 = 8;
const TRIES: u64 = 50_000;
const LIMIT: u64 = 10_000;
/// Small ones more often, so that the last gap is filled.
const COSTS: [u64; 6] = [1, 1, 2, 3, 7, 40];

/// What one thread, or all of them, saw.
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

/// Runs the same closure in all threads and adds up what they saw. A thread that never comes back (two of them waiting
/// for each other) ends the test instead of holding it up.
fn in_threads(job: impl Fn(u64) -> Tally + Clone + Send + 'static) -> Tally {
    let (told, heard) = mpsc::channel();
    for thread in 0..THREADS {
        let (job, told) = (job.clone(), told.clone());
        thread::spawn(move || told.send(job(thread)));
    }
    let mut sum = Tally::default();
    for _ in 0..THREADS {
        sum.add(heard.recv_timeout(Duration::from_secs(120)).expect("no thread waits for another for ever"));
    }
    sum
}

/// All threads ask for one key, each holder under a name of its own.
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
            let take = Take::now(cost).held_as(LeaseId(thread * tries + turn));
            let told = store.decide_now(&[Ask::new(&policy, "hot")], &Verb::Take(take)).unwrap();
            tally.count(cost, told.verdict);
        }
        tally
    })
}

/// One permit at a time, then costs of all sizes; those of 1 among them fill the last gap, so the sum is exact again.
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
    admits_exactly_the_limit(Rule::token_bucket("all", Quota::per_day(LIMIT)).stepwise(), TRIES);
}

#[test]
fn a_fixed_window_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::fixed_window("all", Quota::per_day(LIMIT)).align(Align::FirstRequest), TRIES);
}

#[test]
fn a_sliding_log_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::sliding_log("all", Quota::per_day(LIMIT)), TRIES);
}

#[test]
fn a_sliding_counter_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::sliding_counter("all", Quota::per_day(LIMIT)), TRIES);
}

/// Every decision walks the list of holders, so there are fewer of both.
#[test]
fn a_concurrency_rule_admits_exactly_the_limit() {
    admits_exactly_the_limit(Rule::concurrency("all", LIMIT / 10, Duration::from_secs(3600)), TRIES / 10);
}

/// Three rules share the key; the tightest says how many, and the others have counted the same number.
#[test]
fn three_rules_admit_exactly_what_the_tightest_allows() {
    let bench = Bench::roomy();
    let rules = [
        Rule::token_bucket("burst", Quota::per_day(2 * LIMIT)),
        Rule::sliding_counter("tight", Quota::per_day(LIMIT)),
        Rule::fixed_window("wide", Quota::per_day(3 * LIMIT)).align(Align::FirstRequest),
    ];
    let policy = bench.install("hot", rules);
    assert_eq!(hammer(&bench, &policy, TRIES, |_| 1).permits, LIMIT);
    let left: Vec<u64> = bench.peek(&policy, "hot").rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(left, [LIMIT, 0, 2 * LIMIT]);
}

/// Every release is one more take, and never two.
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
            let told = store.decide_now(&[ask], &Verb::Take(Take::now(1).held_as(lease))).unwrap();
            tally.count(1, told.verdict);
            if told.is_allowed() {
                assert!(told.rules[0].remaining < 3, "a holder sees his own place taken");
                let given_up = Verb::Release(tollgate_core::Release::Lease(lease));
                assert_eq!(store.decide_now(&[ask], &given_up).unwrap().lease, Some(lease));
            }
        }
        tally
    });
    assert!(tally.allowed > 0);
    assert_eq!(bench.remaining(&policy, "hot"), 3);
}

/// Everybody waits for a moment of his own: one every millisecond, none twice, none left out.
#[test]
fn reservations_from_many_threads_never_share_a_moment() {
    let bench = Bench::roomy();
    let policy = bench.install("line", [Rule::token_bucket("even", Quota::per_second(1_000).burst(1))]);
    let (told, heard) = mpsc::channel();
    let store = bench.store.clone();
    let each = 2_000;
    in_threads(move |_| {
        for _ in 0..each {
            let take = Verb::Take(Take::within(1, Micros::HOUR));
            let decision = store.decide_now(&[Ask::new(&policy, "hot")], &take).unwrap();
            assert!(decision.is_allowed());
            told.send(decision.wait()).unwrap();
        }
        Tally::default()
    });
    let mut waits: Vec<Micros> = heard.try_iter().collect();
    waits.sort_unstable();
    let even: Vec<Micros> = (0..THREADS * each).map(Micros::from_millis).collect();
    assert_eq!(waits, even);
}

/// Threads name the same keys in every order; each key is charged for exactly the requests that passed.
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
            tally.count(1, store.decide_now(&asks, &Verb::Take(Take::now(1))).unwrap().verdict);
        }
        tally
    });
    assert_eq!(tally.permits, 3_000);
    assert_eq!(bench.remaining(&wide, "tenant"), 2_000);
    assert_eq!(bench.remaining(&wide, "route"), 2_000);
    assert_eq!(bench.remaining(&tight, "a user whose name is long"), 0);
}

/// Single keys and pairs of the same keys at once: the books of both ways are one.
#[test]
fn pairs_and_single_keys_share_their_books() {
    let bench = Bench::roomy();
    let policy = bench.install("all", [Rule::fixed_window("all", Quota::per_day(20_000)).align(Align::FirstRequest)]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        let (a, b) = (Ask::new(&asked_under, "a"), Ask::new(&asked_under, "b"));
        let both = if thread % 2 == 0 { [a, b] } else { [b, a] };
        for turn in 0..TRIES / 5 {
            let asks = if turn % 4 == 0 { &both[..] } else { &both[..1] };
            let told = store.decide_now(asks, &Verb::Take(Take::now(1))).unwrap();
            tally.count(asks.len() as u64, told.verdict);
        }
        tally
    });
    let used = 40_000 - bench.remaining(&policy, "a") - bench.remaining(&policy, "b");
    assert_eq!(tally.permits, used);
    assert!(tally.denied > 0 && used > 30_000, "{tally:?}: the limit was reached");
}

/// Keys are asked for, looked at, given back to, named together with others and have their policy replaced, all at
/// once; wherever the store keeps the busiest of them, no permit is lost and none is counted twice.
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
        let take = Verb::Take(Take::now(1));
        for turn in 0..TRIES {
            let index = usize::try_from(random.below(4)).unwrap();
            let ask = Ask::new(&policy, KEYS[index]);
            match (thread, random.below(16)) {
                // One thread is told of the same policy again and again, and asks under what it was told last.
                (0, 0) if turn % 16 == 0 => {
                    policy = store.install(Policy::new("busy", [rule()]).unwrap(), Carry::Keep).unwrap();
                }
                (1, _) => assert!(store.decide_now(&[ask], &Verb::Peek).unwrap().is_allowed()),
                (2 | 3, 0..=3) => {
                    let other = Ask::new(&policy, KEYS[(index + 1) % 4]);
                    tally.count(2, store.decide_now(&[ask, other], &take).unwrap().verdict);
                }
                // What this thread took it may give back; others hold enough for it never to be more than is used.
                (4 | 5, 0..=3) if tally.permits > 0 => {
                    let taken = store.decide_now(&[ask], &take).unwrap();
                    assert!(taken.is_allowed());
                    let _ = store.decide_now(&[ask], &Verb::Refund { cost: 1, at: None }).unwrap();
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

/// A limit that is reached while it is being lowered and raised again admits no more than its highest.
#[test]
fn a_limit_that_changes_under_fire_is_kept() {
    let bench = Bench::roomy();
    let rule = |limit| Rule::fixed_window("all", Quota::per_day(limit)).align(Align::FirstRequest);
    let policy = bench.install("busy", [rule(LIMIT)]);
    let (store, asked_under) = (bench.store.clone(), policy.clone());
    let tally = in_threads(move |thread| {
        let mut tally = Tally::default();
        for turn in 0..TRIES {
            if thread == 0 && turn % 64 == 0 {
                let limit = if turn % 128 == 0 { LIMIT / 2 } else { LIMIT };
                store.install(Policy::new("busy", [rule(limit)]).unwrap(), Carry::Keep).unwrap();
            }
            let ask = Ask::new(&asked_under, "hot");
            tally.count(1, store.decide_now(&[ask], &Verb::Take(Take::now(1))).unwrap().verdict);
        }
        tally
    });
    // Changed to the half at some moment, what is used beyond it is cut to it, and the rest may be had once more.
    assert!(tally.permits >= LIMIT, "{tally:?}");
    bench.install("busy", [rule(LIMIT)]);
    assert!(bench.remaining(&policy, "hot") <= LIMIT / 2, "what is used stays used");
}
