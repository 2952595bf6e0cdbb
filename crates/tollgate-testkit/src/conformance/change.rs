//! A policy of the same domain and name replaces the old one; keys are carried over when they are next met.

use tollgate_core::{Carry, Micros, Quota, Rule, Store};

use super::{Bench, Key};
use crate::gate::Expect;

fn rules(limit: u64) -> [Rule; 3] {
    let quota = Quota::per_minute(limit);
    [Rule::token_bucket("bucket", quota), Rule::fixed_window("window", quota), Rule::sliding_log("log", quota)]
}

/// Four of ten used, then the limit becomes something else.
async fn after<'a, S: Store, T: Fn(Micros)>(bench: &'a Bench<'a, S, T>, limit: u64, carry: Carry) -> Key<'a, S, T> {
    let old = bench.key(rules(10));
    old.take(4).await.expect_allow();
    let new = bench.install(bench.policy("policy", rules(limit)), carry);
    bench.key_under(new, "key")
}

async fn remaining<S: Store, T: Fn(Micros)>(key: &Key<'_, S, T>) -> Vec<u64> {
    key.peek().await.rules.iter().map(|rule| rule.remaining).collect()
}

/// Used stays used: a raised limit helps at once, a lowered one bites at once.
pub async fn installing_again_keeps_what_is_used<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, Carry::Keep).await;
    assert_eq!(remaining(&key).await, [16, 16, 16]);
    let lower = bench.install(bench.policy("policy", rules(5)), Carry::Keep);
    assert_eq!(remaining(&bench.key_under(lower, "key")).await, [1, 1, 1]);
}

/// Used keeps its share, rounded up.
pub async fn installing_again_scales_what_is_used<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, Carry::Scale).await;
    assert_eq!(remaining(&key).await, [12, 12, 12]);
    let lower = bench.install(bench.policy("policy", rules(3)), Carry::Scale);
    assert_eq!(remaining(&bench.key_under(lower, "key")).await, [1, 1, 1], "8 of 20 is 1.2 of 3, so 2");
}

/// Everybody starts again.
pub async fn installing_again_starts_afresh<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 20, Carry::Fresh).await;
    assert_eq!(remaining(&key).await, [20, 20, 20]);
    key.take(20).await.expect_allow();
    key.take(1).await.expect_deny();
}

/// The same policy again is no change at all.
pub async fn installing_the_same_again_changes_nothing<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = after(bench, 10, Carry::Keep).await;
    assert_eq!(remaining(&key).await, [6, 6, 6]);
    key.take(6).await.expect_allow();
    key.take(1).await.expect_deny();
}

/// Keys met late are carried over as well, and keys of other policies not at all.
pub async fn a_raised_limit_leaves_other_keys_alone<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let other = bench.install(bench.policy("other", rules(10)), Carry::Keep);
    let other = bench.key_under(other, "key");
    other.take(4).await.expect_allow();
    let late = bench.key_under(bench.key(rules(10)).policy, "late");
    late.take(4).await.expect_allow();
    let new = after(bench, 20, Carry::Keep).await;
    bench.advance(Micros(1));
    let late = bench.key_under(new.policy.clone(), "late");
    assert_eq!(remaining(&late).await[2], 16);
    assert_eq!(remaining(&other).await[2], 6);
}

/// Whoever still asks with what the store returned for the old policy is answered under the new one.
pub async fn an_old_handle_stands_for_the_new_policy<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let old = bench.key(rules(10));
    old.take(4).await.expect_allow();
    bench.install(bench.policy("policy", rules(20)), Carry::Keep);
    assert_eq!(remaining(&old).await, [16, 16, 16]);
    old.take(16).await.expect_allow();
    old.take(1).await.expect_deny();
}

/// Numbers that come with each request: what a key remembers is the moment at which it is as good as new.
pub async fn quotas_beside_each_other_share_a_keys_moment<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let under = |limit: u64, per: Micros, burst: u64| {
        let quota = Quota::per_micros(limit, per).burst(burst);
        let policy = bench.policy("beside", [Rule::token_bucket("bucket", quota)]);
        let policy = bench.store.install_beside(policy).expect("the store takes a sound policy");
        bench.key_under(policy, "key")
    };
    let (slow, fast) = (under(1, Micros::SECOND, 10), under(10, Micros::SECOND, 20));
    slow.take(5).await.expect_allow(); // new again in 5 s, which is more than the 2 s that the other can be behind
    let told = fast.take(1).await;
    assert_eq!((told.expect_deny(), told.remaining()), (Micros(3_100_000), 0));
    assert_eq!(fast.peek().await.reset_after(), Micros(5_000_000));
    // Looking and being refused have changed nothing, and the first still stands.
    let told = slow.take(1).await;
    told.expect_allow();
    assert_eq!((told.remaining(), told.reset_after()), (4, Micros(6_000_000)));

    bench.advance(Micros(5_000_000));
    let told = fast.take(7).await;
    told.expect_allow();
    assert_eq!((told.remaining(), told.reset_after()), (3, Micros(1_700_000)));
    assert_eq!(slow.peek().await.remaining(), 8);
    // The same numbers again are the same policy.
    assert_eq!(under(1, Micros::SECOND, 10).peek().await.remaining(), 8);
    bench.advance(Micros(1_700_000));
    assert_eq!(slow.peek().await.remaining(), 10);
}
