//! Requests for many keys at once, decided as by the embedded store.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::time::Duration;

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Span, Store, Take, Timestamp, Verb};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::RedisServer;

/// Policies of up to five rules of every kind, some in shadow.
fn policies() -> Vec<Policy> {
    let quota = Quota::per_minute(5);
    let rules = [
        Rule::token_bucket("bucket", quota),
        Rule::sliding_log("log", quota),
        Rule::fixed_window("window", quota).shadow(true),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("places", 5, Duration::from_secs(60)),
    ];
    (1..=rules.len()).map(|many| Policy::new(format!("policy {many}"), rules[..many].to_vec()).unwrap()).collect()
}

async fn ask_for<S: Store>(store: &S, many: usize, costs: &[u64]) -> Vec<Decision> {
    let policies: Vec<S::Policy> =
        policies().into_iter().map(|policy| store.install(policy, OnQuotaChange::Keep).unwrap()).collect();
    let keys: Vec<String> = (0..many).map(|number| format!("key {number}")).collect();
    let mut decisions = Vec::new();
    for &cost in costs {
        let ask = |(number, key)| Ask::new(&policies[number % policies.len()], key).cost(cost);
        let asks: Vec<Ask<'_, S::Policy>> = keys.iter().map(String::as_str).enumerate().map(ask).collect();
        decisions.push(store.decide(&asks, Verb::Take(Take::within(Span::HOUR))).await.unwrap());
    }
    decisions
}

async fn on_redis(many: usize, costs: &[u64]) -> Vec<Decision> {
    let (server, clock) = (RedisServer::start(), ManualClock::default());
    clock.set(Timestamp::from_secs(1_700_000_000));
    let config = RedisConfig::default().manual_clock(clock).deadline(Duration::from_secs(20));
    ask_for(&RedisStore::connect_with(&server.url(), config).await.unwrap(), many, costs).await
}

async fn in_memory(many: usize, costs: &[u64]) -> Vec<Decision> {
    let clock = ManualClock::default();
    clock.set(Timestamp::from_secs(1_700_000_000));
    ask_for(&MemoryStore::with_clock(clock), many, costs).await
}

#[tokio::test]
async fn one_script_decides_for_many_keys() {
    for many in [2, 8, 9, 64] {
        let costs = [3, 3, 6, 0];
        assert_eq!(on_redis(many, &costs).await, in_memory(many, &costs).await, "{many} keys");
    }
}

/// More keys than one script takes are charged one after another, with `Source::InTurn`.
#[tokio::test]
async fn too_many_keys_are_decided_in_turn() {
    let decisions = on_redis(65, &[3, 6]).await;
    assert!(decisions.iter().all(|decision| decision.source == Source::InTurn));
    assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
}
