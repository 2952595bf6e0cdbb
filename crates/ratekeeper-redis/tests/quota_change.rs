//! Quotas that change while keys are in use: in this process, in another, and in both at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

mod support;

use std::time::Duration;

use ratekeeper::{Limiter, ManualClock};
use ratekeeper_core::{Decision, OnQuotaChange, Quota, Rule, Source, Span, Timestamp};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::{RedisServer, wait_until};
use support::poll_until;

type MakesRule = fn(Quota) -> Rule;

const ALGORITHMS: [(&str, MakesRule); 7] = [
    ("token bucket", |quota| Rule::token_bucket("r", quota)),
    ("stepwise", |quota| Rule::token_bucket_stepwise("r", quota)),
    ("leaky bucket", |quota| Rule::leaky_bucket("r", quota)),
    ("fixed window", |quota| Rule::fixed_window("r", quota)),
    ("sliding log", |quota| Rule::sliding_log("r", quota)),
    ("sliding counter", |quota| Rule::sliding_counter("r", quota)),
    ("concurrency", |quota| Rule::concurrency("r", quota.limit(), Duration::from_secs(60))),
];

/// The embedded store migrates state as the core does; the Redis store must decide the same.
#[tokio::test]
async fn a_changed_rule_decides_as_in_memory() {
    let server = RedisServer::start();
    for (from, old) in ALGORITHMS {
        for (to, new) in ALGORITHMS {
            for carry in [OnQuotaChange::Keep, OnQuotaChange::Scale, OnQuotaChange::Fresh] {
                for limit in [20, 10, 5] {
                    let story = format!("{from} to {to}, {carry:?}, 10 to {limit}");
                    compare(&server, &story, old(Quota::per_minute(10)), new(Quota::per_minute(limit)), carry).await;
                }
            }
        }
    }
}

/// Six of ten permits are used, the rule changes, and every later request is sent to both stores.
async fn compare(server: &RedisServer, story: &str, old: Rule, new: Rule, carry: OnQuotaChange) {
    let (pretend, manual) = (ManualClock::default(), ManualClock::at(NOON));
    pretend.set(NOON);
    let config = RedisConfig::default().deadline(TIMEOUT).manual_clock(pretend.clone());
    let config = config.prefix(story.replace([' ', ','], "-"));
    let redis = RedisStore::connect_with(&server.url(), config).await.unwrap();
    let redis = Limiter::builder().rule(old.clone()).store(redis).build().unwrap();
    let memory = Limiter::builder().rule(old).clock(manual.clone()).build().unwrap();
    let same = async |cost: u64| {
        let (expected, found) = (memory.check(("key", cost)).await.unwrap(), redis.check(("key", cost)).await.unwrap());
        // Each limiter names its leases itself.
        let unnamed = |decision: Decision| decision.with_lease(None);
        assert_eq!(unnamed(found), unnamed(expected), "{story}");
    };
    for _ in 0..6 {
        same(1).await;
    }
    for clock in [NOON + Span::SECOND, NOON + Span::from_micros(20 * Span::SECOND.as_micros())] {
        pretend.set(clock);
        manual.set(clock);
        if clock == NOON + Span::SECOND {
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

/// A limiter as in another process: it knows this rule and no other.
async fn process(server: &RedisServer, rule: Rule) -> Limiter<RedisStore> {
    let store = RedisStore::connect_with(&server.url(), RedisConfig::default().deadline(TIMEOUT)).await.unwrap();
    Limiter::builder().rule(rule).store(store).build().unwrap()
}

fn daily(limit: u64) -> Rule {
    Rule::sliding_log("r", Quota::per_day(limit))
}

fn wait_for_rules(server: &RedisServer, versions: usize) {
    wait_until("stored definition of the rules", TIMEOUT, || {
        server.command(&["KEYS", "ratekeeper:1:rules:*"]).items().len() >= versions
    });
}

async fn remaining(limiter: &Limiter<RedisStore>) -> u64 {
    let decision = limiter.peek("key").await.unwrap();
    assert_eq!(decision.source, Source::Store, "{:?}", limiter.store().counts());
    decision.remaining()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_of_rules_that_a_process_never_had_is_migrated() {
    let server = RedisServer::start();
    let old = process(&server, daily(10)).await;
    assert!(old.check(("key", 4)).await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    assert_eq!(remaining(&process(&server, daily(20)).await).await, 16);
    assert_eq!(remaining(&process(&server, daily(5)).await).await, 1);
    let other_kind = process(&server, Rule::fixed_window("r", Quota::per_day(7))).await;
    assert_eq!(remaining(&other_kind).await, 3);
    assert_eq!(other_kind.store().counts().foreign_states, 0);
}

/// A rolling upgrade: the value is migrated back and forth, and used permits stay used on both sides.
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
    assert!(!old.check("key").await.unwrap().is_allowed(), "its ten permits are used");
    assert!(new.check(("key", 10)).await.unwrap().is_allowed());
    assert!(!new.check("key").await.unwrap().is_allowed());
    assert_eq!(old.store().counts().foreign_states + new.store().counts().foreign_states, 0);
}

/// The same concurrently: at most the larger limit is admitted, and no decision reports a store failure.
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
                let decision = limiter.check("key").await.unwrap();
                admitted += u64::from(decision.is_allowed() && decision.source == Source::Store);
                without += u64::from(decision.source != Source::Store);
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

/// A server that lost its data gets the definitions again, so that later values can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_stored_again_after_a_loss() {
    let server = RedisServer::start();
    let old = process(&server, daily(10)).await;
    assert!(old.check("key").await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    server.restart_empty();
    let is_back = async || old.peek("key").await.unwrap().source == Source::Store;
    poll_until("decision by the store", TIMEOUT, is_back).await;
    assert!(old.check(("key", 4)).await.unwrap().is_allowed());
    wait_for_rules(&server, 1);
    let new = process(&server, daily(20)).await;
    assert_eq!(remaining(&new).await, 16);
    assert_eq!(new.store().counts().foreign_states, 0);
}

/// 2027-01-15, 08:00 UTC.
const NOON: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const TIMEOUT: Duration = Duration::from_secs(10);
