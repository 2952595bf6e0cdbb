//! Verbs other than take: peek, refund, settle, penalize, block, reset, release, heartbeat.

use std::time::Duration;

use ratekeeper_core::{DecidedBy, LeaseId, Quota, Release, Rule, Span, Store, Take, Timestamp, Verb};

use super::Bench;
use crate::gate::Expect;

/// One rule per algorithm, each with 10 permits a minute.
fn ten_per_minute() -> [Rule; 5] {
    let quota = Quota::per_minute(10);
    [
        Rule::token_bucket("bucket", quota),
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::fixed_window("window", quota),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
    ]
}

/// Neither a peek nor a take with cost 0 charges anything.
pub async fn a_peek_charges_nothing<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key(ten_per_minute());
    assert_eq!(key.remaining().await, 10, "a key in its initial state");
    key.take(3).await.expect_allow();
    for _ in 0..5 {
        assert_eq!(key.remaining().await, 7);
        assert_eq!(key.take(0).await.remaining(), 7);
    }
}

/// A refund returns permits, up to the limit.
pub async fn a_refund_returns_and_never_lifts_above_full<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in ten_per_minute() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(8).await.expect_allow();
        let decision = key.verb((5, Verb::Refund { at: Some(bench.now()) })).await;
        assert_eq!(decision.remaining(), 7, "{name}");
        let decision = key.verb((100, Verb::Refund { at: None })).await;
        assert_eq!(decision.remaining(), 10, "{name}");
        key.take(10).await.expect_allow();
        key.take(1).await.expect_deny();
    }
}

/// A settlement replaces the charged estimate by the actual cost, which may be lower or higher.
pub async fn a_settlement_corrects_the_estimate<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in ten_per_minute() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let at = Some(bench.now());
        key.take(6).await.expect_allow();
        assert_eq!(key.verb((6, Verb::Settle { actual: 2, at })).await.remaining(), 8, "{name}");
        assert_eq!(key.verb((2, Verb::Settle { actual: 7, at })).await.remaining(), 3, "{name}");
        assert_eq!(key.verb((7, Verb::Settle { actual: 7, at })).await.remaining(), 3, "{name}");
    }
}

/// A penalty is charged even if permits are missing. A bucket's debt is repaid at its rate.
pub async fn a_penalty_is_charged_without_asking<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in ten_per_minute() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(8).await.expect_allow();
        assert_eq!(key.verb((5, Verb::Penalize)).await.remaining(), 0, "{name}");
        key.take(1).await.expect_deny();
    }
    let bucket = Rule::token_bucket("debt", Quota::per_second(1).burst(10));
    let key = bench.key_under(bench.key([bucket]).policy, "debt");
    let _ = key.verb((15, Verb::Penalize)).await;
    assert_eq!(key.take(1).await.expect_deny(), Span::from_secs(6));
}

/// A block refuses takes until it expires or is removed; other keys are unaffected.
pub async fn a_block_refuses_until_it_ends<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::sliding_log("log", Quota::per_second(5))]);
    let other = bench.key_under(key.policy.clone(), "other");
    let decision = key.verb(Verb::Block { span: Span::MINUTE }).await;
    assert_eq!((decision.expect_deny(), decision.decided_by), (Span::MINUTE, DecidedBy::Block));
    // The log alone would have been in its initial state for a long time.
    bench.advance(Span::MINUTE - Span::from_micros(1));
    assert_eq!(key.take_within(1, Span::HOUR).await.expect_deny(), Span::from_micros(1));
    other.take(1).await.expect_allow();
    bench.advance(Span::from_micros(1));
    key.take(1).await.expect_allow();
    let _ = key.verb(Verb::Block { span: Span::DAY }).await;
    key.take(1).await.expect_deny();
    let _ = key.verb(Verb::Block { span: Span::ZERO }).await;
    key.take(1).await.expect_allow();
}

/// A reset restores the initial state: no permits used, no reservations, no block.
pub async fn a_reset_forgets_everything<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key(ten_per_minute());
    key.take(10).await.expect_allow();
    let _ = key.take_within(10, Span::HOUR).await;
    let _ = key.verb(Verb::Block { span: Span::DAY }).await;
    let decision = key.verb(Verb::Reset).await;
    assert_eq!((decision.remaining(), decision.reset_after_span()), (10, Span::ZERO));
    key.take(10).await.expect_allow();
}

/// A lease ends by its release or its expiry; a heartbeat extends it.
pub async fn a_lease_is_released_renewed_and_ends<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::concurrency("in flight", 2, Duration::from_secs(10))]);
    let hold = |lease| key.verb(Verb::Take(Take::now().with_lease(LeaseId(lease))));
    assert_eq!(hold(1).await.lease, Some(LeaseId(1)));
    hold(2).await.expect_allow();
    assert_eq!(hold(3).await.expect_deny(), Span::from_secs(10));

    let released = key.verb(Verb::Release(Release::Lease(LeaseId(1)))).await;
    assert_eq!((released.lease, released.remaining()), (Some(LeaseId(1)), 1));
    let again = key.verb(Verb::Release(Release::Lease(LeaseId(1)))).await;
    assert_eq!((again.lease, again.remaining()), (None, 1));
    hold(3).await.expect_allow();

    bench.advance(Span::from_secs(9));
    assert_eq!(key.verb(Verb::Heartbeat(LeaseId(2))).await.lease, Some(LeaseId(2)));
    bench.advance(Span::SECOND);
    assert_eq!(key.remaining().await, 1, "lease 3 expired, lease 2 was extended");
    assert_eq!(key.verb(Verb::Heartbeat(LeaseId(3))).await.lease, None, "an expired lease is not extended");
    let _ = key.verb(Verb::Release(Release::Oldest)).await;
    assert_eq!(key.remaining().await, 2);
}
