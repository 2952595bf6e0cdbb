//! Every verb but take, as a caller of a store sees it.

use std::time::Duration;

use tollgate_core::{DecidedBy, LeaseId, Micros, Quota, Release, Rule, Store, Take, Verb};

use super::Bench;
use crate::gate::Expect;

fn tens() -> [Rule; 5] {
    let quota = Quota::per_minute(10);
    [
        Rule::token_bucket("bucket", quota),
        Rule::token_bucket("stepwise", quota).stepwise(),
        Rule::fixed_window("window", quota),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
    ]
}

/// Looking is free, with a peek or with a take of nothing.
pub async fn a_peek_charges_nothing<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key(tens());
    assert_eq!(key.remaining().await, 10, "a key never seen");
    key.take(3).await.expect_allow();
    for _ in 0..5 {
        assert_eq!(key.remaining().await, 7);
        assert_eq!(key.take(0).await.remaining(), 7);
    }
}

/// What was not used comes back, once, and only up to full.
pub async fn a_refund_returns_and_never_lifts_above_full<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(8).await.expect_allow();
        let told = key.verb(Verb::Refund { cost: 5, at: Some(bench.now()) }).await;
        assert_eq!(told.remaining(), 7, "{name}");
        let told = key.verb(Verb::Refund { cost: 100, at: None }).await;
        assert_eq!(told.remaining(), 10, "{name}");
        key.take(10).await.expect_allow();
        key.take(1).await.expect_deny();
    }
}

/// Charge an estimate, correct it later, either way.
pub async fn a_settlement_corrects_the_estimate<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let at = Some(bench.now());
        key.take(6).await.expect_allow();
        assert_eq!(key.verb(Verb::Settle { reserved: 6, actual: 2, at }).await.remaining(), 8, "{name}");
        assert_eq!(key.verb(Verb::Settle { reserved: 2, actual: 7, at }).await.remaining(), 3, "{name}");
        assert_eq!(key.verb(Verb::Settle { reserved: 7, actual: 7, at }).await.remaining(), 3, "{name}");
    }
}

/// A penalty may leave a bucket in debt, which it pays off at its rate.
pub async fn a_penalty_is_charged_without_asking<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(8).await.expect_allow();
        assert_eq!(key.verb(Verb::Penalize { cost: 5 }).await.remaining(), 0, "{name}");
        key.take(1).await.expect_deny();
    }
    let bucket = Rule::token_bucket("debt", Quota::per_second(1).burst(10));
    let key = bench.key_under(bench.key([bucket]).policy, "debt");
    let _ = key.verb(Verb::Penalize { cost: 15 }).await;
    assert_eq!(key.take(1).await.expect_deny(), Micros::from_secs(6));
}

/// A block outlasts everything but its end and its lifting.
pub async fn a_block_refuses_until_it_ends<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::sliding_log("log", Quota::per_second(5))]);
    let other = bench.key_under(key.policy.clone(), "other");
    let told = key.verb(Verb::Block { span: Micros::MINUTE }).await;
    assert_eq!((told.expect_deny(), told.decided_by), (Micros::MINUTE, DecidedBy::Block));
    // Long after the log itself would have been forgotten.
    bench.advance(Micros::MINUTE - Micros(1));
    assert_eq!(key.take_within(1, Micros::HOUR).await.expect_deny(), Micros(1));
    other.take(1).await.expect_allow();
    bench.advance(Micros(1));
    key.take(1).await.expect_allow();
    let _ = key.verb(Verb::Block { span: Micros::DAY }).await;
    key.take(1).await.expect_deny();
    let _ = key.verb(Verb::Block { span: Micros::ZERO }).await;
    key.take(1).await.expect_allow();
}

/// After a reset a key is one never seen: nothing used, nothing promised, nothing blocked.
pub async fn a_reset_forgets_everything<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key(tens());
    key.take(10).await.expect_allow();
    let _ = key.take_within(10, Micros::HOUR).await;
    let _ = key.verb(Verb::Block { span: Micros::DAY }).await;
    let told = key.verb(Verb::Reset).await;
    assert_eq!((told.remaining(), told.reset_after()), (10, Micros::ZERO));
    key.take(10).await.expect_allow();
}

/// Holders let go, say that they are still there, or are taken for gone.
pub async fn a_lease_is_released_renewed_and_ends<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::concurrency("in flight", 2, Duration::from_secs(10))]);
    let hold = |lease| key.verb(Verb::Take(Take::now(1).held_as(LeaseId(lease))));
    assert_eq!(hold(1).await.lease, Some(LeaseId(1)));
    hold(2).await.expect_allow();
    assert_eq!(hold(3).await.expect_deny(), Micros::from_secs(10));

    let released = key.verb(Verb::Release(Release::Lease(LeaseId(1)))).await;
    assert_eq!((released.lease, released.remaining()), (Some(LeaseId(1)), 1));
    let again = key.verb(Verb::Release(Release::Lease(LeaseId(1)))).await;
    assert_eq!((again.lease, again.remaining()), (None, 1));
    hold(3).await.expect_allow();

    bench.advance(Micros::from_secs(9));
    assert_eq!(key.verb(Verb::Heartbeat(LeaseId(2))).await.lease, Some(LeaseId(2)));
    bench.advance(Micros::SECOND);
    assert_eq!(key.remaining().await, 1, "3 was silent, 2 was not");
    assert_eq!(key.verb(Verb::Heartbeat(LeaseId(3))).await.lease, None, "what has ended is not revived");
    let _ = key.verb(Verb::Release(Release::Oldest(1))).await;
    assert_eq!(key.remaining().await, 2);
}
