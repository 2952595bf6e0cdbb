//! Building a limiter: mistakes in rules, shared stores, names and domains, several policies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::time::Duration;

use ratekeeper::{BuildError, Limiter, ManualClock, MemoryStore, Quota, Rule, Source, Timestamp, bounds};
use support::store;

fn per_minute(limit: u64) -> Rule {
    Rule::token_bucket("minute", Quota::per_minute(limit))
}

/// The error message of these rules.
#[track_caller]
fn mistake(rules: impl IntoIterator<Item = Rule>) -> String {
    Limiter::builder().rules(rules).build().expect_err("a mistake").to_string()
}

#[test]
fn a_mistake_names_the_rule_the_field_and_the_remedy() {
    let cases = [
        (per_minute(0), ["rule \"minute\"", "limit is 0", "use 1 or more"]),
        (Rule::token_bucket("a", Quota::per_second(5).burst(0)), ["rule \"a\"", "burst is 0", "use 1 or more"]),
        (Rule::leaky_bucket("b", Quota::per_second(5).capacity(0)), ["rule \"b\"", "capacity is 0", "use 1 or more"]),
        (Rule::sliding_log("c", Quota::per(5, Duration::ZERO)), ["rule \"c\"", "per is 0s", "use a span"]),
        (Rule::sliding_log("d", Quota::per_second(2_000_000)), ["rule \"d\"", "limit is 2000000", "sliding_counter"]),
        (Rule::sliding_counter_with("e", Quota::per_second(5), 0), ["rule \"e\"", "buckets is 0", "use 1 to"]),
        (Rule::concurrency("f", 3, Duration::ZERO), ["rule \"f\"", "lease is 0s", "use a span"]),
        (Rule::concurrency("g", 100_000, Duration::from_secs(1)), ["rule \"g\"", "limit is 100000", "at most 65536"]),
        (Rule::token_bucket("h", Quota::per_month(5)), ["rule \"h\"", "per is 1mo", "calendar"]),
        (Rule::fixed_window("i", Quota::per_second(5).burst(9)), ["rule \"i\"", "burst is 9", "leave it out"]),
        (Rule::token_bucket("", Quota::per_second(5)), ["rule \"\"", "name is empty", "printable text"]),
    ];
    for (rule, parts) in cases {
        let message = mistake([rule]);
        for part in parts {
            assert!(message.contains(part), "\"{message}\" does not contain \"{part}\"");
        }
    }
}

#[test]
fn mistakes_of_the_whole_policy_are_reported() {
    assert!(mistake([]).contains("has no rules"));
    assert!(mistake([per_minute(1), per_minute(2)]).contains("two rules are named \"minute\""));
    let many = (0..=bounds::MAX_RULES).map(|index| Rule::token_bucket(format!("rule {index}"), Quota::per_second(1)));
    assert!(mistake(many).contains("33 rules"));
    let unnamed = Limiter::builder().name("").rule(per_minute(1)).build().unwrap_err();
    assert!(matches!(unnamed, BuildError::Policy(_)) && unnamed.to_string().contains("name is empty"), "{unnamed}");
    let domain = Limiter::builder().domain("a\nb").rule(per_minute(1)).build().unwrap_err().to_string();
    assert!(domain.contains("domain is \"a\\nb\""), "{domain}");
}

#[tokio::test(start_paused = true)]
async fn limiters_of_different_names_share_a_store_and_no_keys() {
    let store = store();
    let builder = || Limiter::builder().rule(per_minute(10));
    let plain = builder().store(store.clone()).build().unwrap();
    let named = builder().name("named").store(store.clone()).build().unwrap();
    let elsewhere = builder().domain("elsewhere").store(store.clone()).build().unwrap();
    assert!(plain.check(("user", 10)).await.unwrap().is_allowed());
    assert!(named.check(("user", 9)).await.unwrap().is_allowed());
    assert!(elsewhere.check(("user", 8)).await.unwrap().is_allowed());
    assert_eq!(store.len(), 3);
    for (limiter, left) in [(&plain, 0), (&named, 1), (&elsewhere, 2)] {
        assert_eq!(limiter.peek("user").await.unwrap().remaining(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn limiters_of_one_name_share_keys_and_rules() {
    let store = store();
    let build = |limit| Limiter::builder().name("api").rule(per_minute(limit)).store(store.clone()).build().unwrap();
    let (first, second) = (build(10), build(10));
    assert!(first.check(("user", 6)).await.unwrap().is_allowed());
    assert_eq!(second.peek("user").await.unwrap().remaining(), 4);
    second.set_rule(per_minute(20)).unwrap();
    assert_eq!(first.peek("user").await.unwrap().remaining(), 14);
}

#[tokio::test(start_paused = true)]
async fn clones_are_the_same_limiter() {
    let limiter = Limiter::builder().rule(per_minute(10)).store(store()).build().unwrap();
    let clone = limiter.clone();
    assert!(limiter.check(("user", 6)).await.unwrap().is_allowed());
    clone.set_rule(per_minute(7)).unwrap();
    assert_eq!(limiter.peek("user").await.unwrap().remaining(), 1);
    assert_eq!(limiter.policy().rules()[0].rule(), &per_minute(7));
}

#[test]
fn a_manual_clock_decides() {
    let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
    let limiter = Limiter::builder().rule(per_minute(1)).clock(clock.clone()).build().unwrap();
    assert!(limiter.check_now("user").unwrap().is_allowed());
    assert!(!limiter.check_now("user").unwrap().is_allowed());
    clock.advance(Duration::from_secs(60));
    assert!(limiter.check_now("user").unwrap().is_allowed());
}

#[test]
fn the_byte_budget_is_not_exceeded() {
    let day = Rule::token_bucket("day", Quota::per_day(1));
    let limiter = Limiter::builder().rule(day).budget_bytes(64 << 10).build().unwrap();
    let shared = (0..20_000).filter(|number| {
        let decision = limiter.check_now(&format!("user {number}")).unwrap();
        decision.source == Source::Overflow
    });
    assert!(shared.count() > 10_000, "64 KiB hold one or two thousand keys");
    assert!(limiter.store().bytes() <= 64 << 10);
}

#[test]
fn a_key_that_is_too_long_is_an_error() {
    let limiter = Limiter::builder().rule(per_minute(1)).store(MemoryStore::new()).build().unwrap();
    assert!(limiter.check_now(&"k".repeat(bounds::MAX_KEY_BYTES)).unwrap().is_allowed());
    let error = limiter.check_now(&"k".repeat(bounds::MAX_KEY_BYTES + 1)).unwrap_err();
    assert!(!error.is_transient());
    assert!(error.to_string().contains("4097 bytes"), "{error}");
}

/// Limiters, guards, decisions and errors can be sent to other threads.
#[test]
fn public_types_are_send_and_sync() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<Limiter>();
    sendable::<BuildError>();
    sendable::<ratekeeper::AcquireError>();
    sendable::<ratekeeper::StoreError>();
    sendable::<ratekeeper::Decision>();
    sendable::<ratekeeper::LeaseGuard<MemoryStore>>();
    sendable::<ratekeeper::RequestError>();
    sendable::<ratekeeper::Reservation<MemoryStore>>();
}
