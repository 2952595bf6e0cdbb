//! Replacement of a policy by one of the same domain and name; keys are migrated when they are used next.

use ratekeeper_core::{OnQuotaChange, Quota, Rule, Span, Store, Timestamp};

use super::{Bench, Key};
use crate::gate::Expect;

fn rules(limit: u64) -> [Rule; 3] {
    let quota = Quota::per_minute(limit);
    [Rule::token_bucket("bucket", quota), Rule::fixed_window("window", quota), Rule::sliding_log("log", quota)]
}

/// Four of ten used, then the limit becomes something else.
async fn after<'a, S: Store, T: Fn(Timestamp)>(
    bench: &'a Bench<'a, S, T>,
    limit: u64,
    carry: OnQuotaChange,
) -> Key<'a, S, T> {
    let old = bench.key(rules(10));
    old.take(4).await.expect_allow();
    let new = bench.install(bench.policy("policy", rules(limit)), carry);
    bench.key_under(new, "key")
}

async fn remaining<S: Store, T: Fn(Timestamp)>(key: &Key<'_, S, T>) -> Vec<u64> {
    key.peek().await.rules.iter().map(|rule| rule.remaining).collect()
}

/// What is used stays used: a raised or lowered limit takes effect immediately.
pub async fn installing_again_keeps_what_is_used<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, OnQuotaChange::Keep).await;
    assert_eq!(remaining(&key).await, [16, 16, 16]);
    let lower = bench.install(bench.policy("policy", rules(5)), OnQuotaChange::Keep);
    assert_eq!(remaining(&bench.key_under(lower, "key")).await, [1, 1, 1]);
}

/// Used keeps its share, rounded up.
pub async fn installing_again_scales_what_is_used<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, OnQuotaChange::Scale).await;
    assert_eq!(remaining(&key).await, [12, 12, 12]);
    let lower = bench.install(bench.policy("policy", rules(3)), OnQuotaChange::Scale);
    assert_eq!(remaining(&bench.key_under(lower, "key")).await, [1, 1, 1], "8 of 20 is 1.2 of 3, so 2");
}

/// All keys start in the initial state.
pub async fn installing_again_starts_afresh<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, OnQuotaChange::Fresh).await;
    assert_eq!(remaining(&key).await, [20, 20, 20]);
    key.take(20).await.expect_allow();
    key.take(1).await.expect_deny();
}

/// The same policy again is no change at all.
pub async fn installing_the_same_again_changes_nothing<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 10, OnQuotaChange::Keep).await;
    assert_eq!(remaining(&key).await, [6, 6, 6]);
    key.take(6).await.expect_allow();
    key.take(1).await.expect_deny();
}

/// Keys used later are migrated as well, and keys of other policies are not.
pub async fn a_raised_limit_leaves_other_keys_alone<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let other = bench.install(bench.policy("other", rules(10)), OnQuotaChange::Keep);
    let other = bench.key_under(other, "key");
    other.take(4).await.expect_allow();
    let late = bench.key_under(bench.key(rules(10)).policy, "late");
    late.take(4).await.expect_allow();
    let new = after(bench, 20, OnQuotaChange::Keep).await;
    bench.advance(Span::from_micros(1));
    let late = bench.key_under(new.policy.clone(), "late");
    assert_eq!(remaining(&late).await[2], 16);
    assert_eq!(remaining(&other).await[2], 6);
}

/// A request with the handle of the old policy is decided under the new one.
pub async fn an_old_handle_means_the_new_policy<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let old = bench.key(rules(10));
    old.take(4).await.expect_allow();
    bench.install(bench.policy("policy", rules(20)), OnQuotaChange::Keep);
    assert_eq!(remaining(&old).await, [16, 16, 16]);
    old.take(16).await.expect_allow();
    old.take(1).await.expect_deny();
}
