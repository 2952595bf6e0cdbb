use ratekeeper_core::{OnQuotaChange, Policy, Quota, Rule, Speed};

use super::*;
use crate::{key::Together, policies::Policies};

fn policy(policies: &Policies, name: &str) -> RedisPolicy {
    let policy = Policy::new(name, [Rule::token_bucket("r", Quota::per_second(1_000))]).expect("sound rules");
    let policy = policy.with_speed(Speed::prepaid());
    policies.install(policy, OnQuotaChange::Keep, "ratekeeper", Together::default(), 1)
}

fn track(keys: &PrepaidKeys, policy: &RedisPolicy, key: &str) -> Vec<u8> {
    let version = policy.current();
    let name = version.keys.name(key).to_vec();
    keys.track(policy, &version, key, &name, 1);
    name
}

/// A key that was evicted answers no more, also in a thread that remembers it.
#[test]
fn evicted_keys_answer_no_more() {
    let (policies, keys) = (Policies::default(), PrepaidKeys::new());
    let policy = policy(&policies, "p");
    let name = track(&keys, &policy, "first");
    let now = LocalClock::now();
    assert!(matches!(keys.take(&policy, "first", 1, false, now), Here::Ask), "it has no permits");
    let entry = keys.by_name.lock().get(&*name).cloned().expect("it is tracked");
    assert!(entry.evict().is_some());
    assert!(entry.take(&policy, 1, false, now).is_none());
    assert!(keys.with(&name, |_| ()).is_none());
}

/// The table is full after so many keys: new ones replace idle ones.
#[test]
fn idle_keys_are_replaced() {
    let (policies, keys) = (Policies::default(), PrepaidKeys::new());
    let policy = policy(&policies, "p");
    for number in 0..2 * SETS * WAYS {
        track(&keys, &policy, &number.to_string());
    }
    let last = (2 * SETS * WAYS - 1).to_string();
    assert!(keys.with(&policy.current().keys.name(&last), |_| ()).is_some());
    let tracked = keys.entries().len();
    assert!(tracked <= SETS * WAYS && tracked > SETS * WAYS / 2, "{tracked} keys");
}

/// Ids are not used again: a policy does not answer with permits of one that was dropped before.
#[test]
fn no_policy_has_the_id_of_a_dropped_one() {
    let policies = Policies::default();
    let first = policy(&policies, "first").id();
    assert!((0..100).all(|number| policy(&policies, &format!("p{number}")).id() != first));
}
