//! Quotas that change while keys are in use: in this process, in another, and in both at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::time::{Duration, Instant};

use tollgate::{Limiter, ManualClock};
use tollgate_core::{Carry, Decision, Micros, Quota, Rule, Source};
use tollgate_redis::{PretendClock, RedisConfig, RedisStore};
use tollgate_testkit::servers::{RedisServer, wait_until};

type MakesRule = fn(Quota) -> Rule;

const ALGORITHMS: [(&str, MakesRule); 7] = [
    ("token bucket", |quota| Rule::token_bucket("r", quota)),
    ("stepwise", |quota| Rule::token_bucket("r", quota).stepwise()),
    ("leaky bucket", |quota| Rule::leaky_bucket("r", quota)),
    ("fixed window", |quota| Rule::fixed_window("r", quota)),
    ("sliding log", |quota| Rule::sliding_log("r", quota)),
    ("sliding counter", |quota| Rule::sliding_counter("r", quota)),
    ("concurrency", |quota| Rule::concurrency("r", quota.limit(), Duration::from_secs(60))),
];

/// The embedded store carries states over as the core says; the server's must answer the same.
#[tokio::test]
async fn a_changed_rule_answers_as_in_memory() {
    let server = RedisServer::start();
    for (from, old) in ALGORITHMS {
        for (to, new) in ALGORITHMS {
            for carry in [Carry::Keep, Carry::Scale, Carry::Fresh] {
                for limit in [20, 10, 5] {
                    let story = format!("{from} to {to}, {carry:?}, 10 to {limit}");
                    compare(&server, &story, old(Quota::per_minute(10)), new(Quota::per_minute(limit)), carry).await;
                }
            }
        }
    }
}

/// Six used of ten, the rule changes, and everything after that is asked of both stores.
async fn compare(server: &RedisServer, story: &str, old: Rule, new: Rule, carry: Carry) {
    let (pretend, manual) = (PretendClock::default(), ManualClock::at(NOON));
    pretend.set(NOON);
    let config = RedisConfig::default().deadline(PATIENCE).pretend_time(pretend.clone());
    let config = config.prefix(story.replace([' ', ','], "-"));
    let redis = RedisStore::connect_with(&server.url(), config).await.unwrap();
    let redis = Limiter::builder().rule(old.clone()).store(redis).build().unwrap();
    let memory = Limiter::builder().rule(old).clock(manual.clone()).build().unwrap();
    let same = async |cost: u64| {
        let (expected, found) = (memory.check_n("key", cost).await.unwrap(), redis.check_n("key", cost).await.unwrap());
        // Each limiter names its leases itself.
        let unnamed = |decision: Decision| Decision { lease: None, ..decision };
        assert_eq!(unnamed(found), unnamed(expected), "{story}");
    };
    for _ in 0..6 {
        same(1).await;
    }
    for clock in [NOON + Micros::SECOND, NOON + Micros(20 * Micros::SECOND.0)] {
        pretend.set(clock);
        manual.set(clock);
        if clock == NOON + Micros::SECOND {
            memory.set_rule_with(new.clone(), carry).unwrap();
            redis.set_rule_with(new.clone(), carry).unwrap();
        }
        same(0).await;
        for _ in 0..4 {
            same(1).await;
        }
        same(3).await;
    }
    assert_eq!(redis.store().counts().foreign_states, 0, "{story}");
}

/// A limiter of a process of its own: it knows these rules and no others.
async fn process(server: &RedisServer, rule: Rule) -> Limiter<RedisStore> {
    let store = RedisStore::connect_with(&server.url(), RedisConfig::default().deadline(PATIENCE)).await.unwrap();
    Limiter::builder().rule(rule).store(store).build().unwrap()
}

fn daily(limit: u64) -> Rule {
    Rule::sliding_log("r", Quota::per_day(limit))
}

fn wait_for_rules(server: &RedisServer, versions: usize) {
    wait_until("the rules to be written down", PATIENCE, || {
        server.command(&["KEYS", "tollgate:1:rules:*"]).items().len() >= versions
    });
}

async fn remaining(limiter: &Limiter<RedisStore>) -> u64 {
    let told = limiter.peek("key").await.unwrap();
    assert_eq!(told.source, Source::Store, "{:?}", limiter.store().counts());
    told.remaining()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_reads_what_was_counted_under_rules_it_never_saw() {
    let server = RedisServer::start();
    let old = process(&server, daily(10)).await;
    assert!(old.check_n("key", 4).await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    assert_eq!(remaining(&process(&server, daily(20)).await).await, 16);
    assert_eq!(remaining(&process(&server, daily(5)).await).await, 1);
    let other_kind = process(&server, Rule::fixed_window("r", Quota::per_day(7))).await;
    assert_eq!(remaining(&other_kind).await, 3);
    assert_eq!(other_kind.store().counts().foreign_states, 0);
}

/// As in a rolling upgrade: the value goes back and forth, and what is used stays used on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_different_rules_share_a_key() {
    let server = RedisServer::start();
    let (old, new) = (process(&server, daily(10)).await, process(&server, daily(20)).await);
    for turn in 0..5 {
        assert!(old.check("key").await.unwrap().is_allowed());
        if turn == 0 {
            wait_for_rules(&server, 1);
        }
        assert!(new.check("key").await.unwrap().is_allowed());
        if turn == 0 {
            wait_for_rules(&server, 2);
        }
        let used = 2 * (turn + 1);
        assert_eq!((remaining(&old).await, remaining(&new).await), (10 - used, 20 - used));
    }
    assert!(!old.check("key").await.unwrap().is_allowed(), "its ten are gone");
    assert!(new.check_n("key", 10).await.unwrap().is_allowed());
    assert!(!new.check("key").await.unwrap().is_allowed());
    assert_eq!(old.store().counts().foreign_states + new.store().counts().foreign_states, 0);
}

/// The same all at once: never more than the larger limit, and nobody is told that the store has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_different_rules_race_for_a_key() {
    let server = RedisServer::start();
    let (old, new) = (process(&server, daily(100)).await, process(&server, daily(200)).await);
    let (_, _) = (old.check("warm").await.unwrap(), new.check("other").await.unwrap());
    wait_for_rules(&server, 2);
    let askers = (0..8).map(|task| {
        let limiter = if task % 2 == 0 { old.clone() } else { new.clone() };
        tokio::spawn(async move {
            let (mut admitted, mut without) = (0, 0);
            for _ in 0..50 {
                let told = limiter.check("key").await.unwrap();
                admitted += u64::from(told.is_allowed() && told.source == Source::Store);
                without += u64::from(told.source != Source::Store);
            }
            (admitted, without)
        })
    });
    let (mut admitted, mut without) = (0, 0);
    for asker in askers.collect::<Vec<_>>() {
        let (passed, lost) = asker.await.unwrap();
        (admitted, without) = (admitted + passed, without + lost);
    }
    println!("{admitted} admitted, {without} of 400 decisions without the store");
    assert!(admitted <= 200);
    assert_eq!(200 - remaining(&new).await, admitted);
    assert_eq!(without, 0);
}

/// A server that lost everything is told the rules again, or nobody could read what it counts from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_written_down_again_after_a_loss() {
    let server = RedisServer::start();
    let old = process(&server, daily(10)).await;
    assert!(old.check("key").await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    server.restart_empty();
    let start = Instant::now();
    while old.peek("key").await.unwrap().source != Source::Store {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(old.check_n("key", 4).await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    let new = process(&server, daily(20)).await;
    assert_eq!(remaining(&new).await, 16);
    assert_eq!(new.store().counts().foreign_states, 0);
}

/// In the afternoon of the 15th of January 2027.
const NOON: Micros = Micros(1_800_000_000_000_000);
const PATIENCE: Duration = Duration::from_secs(10);
