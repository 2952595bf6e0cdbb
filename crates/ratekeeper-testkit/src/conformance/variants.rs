//! Variants of one policy: limits that arrive with each request.

use ratekeeper_core::{InlineLimits, Quota, Rule, Span, Timestamp};

use super::Bench;
use crate::gate::Expect;

/// Runs the checks for stores that take limits with each request.
pub async fn run_inline_limits<S: InlineLimits>(store: &S, set_time: impl Fn(Timestamp)) {
    variants_share_the_reset_time(&Bench::new(store, &set_time, "variants_share_the_reset_time")).await;
}

/// A key keeps the time at which it is fully replenished when it is asked about under another variant.
pub async fn variants_share_the_reset_time<S: InlineLimits, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let under = |limit: u64, per: Span, burst: u64| {
        let quota = Quota::per_micros(limit, per).burst(burst);
        let policy = bench.policy("variants", [Rule::token_bucket("bucket", quota)]);
        let policy = bench.store.install_variant(policy).expect("the store takes a sound policy");
        bench.key_under(policy, "key")
    };
    let (slow, fast) = (under(1, Span::SECOND, 10), under(10, Span::SECOND, 20));
    slow.take(5).await.expect_allow(); // new again in 5 s, which is more than the 2 s that the other can be behind
    let decision = fast.take(1).await;
    assert_eq!((decision.expect_deny(), decision.remaining()), (Span::from_micros(3_100_000), 0));
    assert_eq!(fast.peek().await.reset_after_span(), Span::from_micros(5_000_000));
    // Looking and being refused have changed nothing, and the first variant sees its own numbers.
    let decision = slow.take(1).await;
    decision.expect_allow();
    assert_eq!((decision.remaining(), decision.reset_after_span()), (4, Span::from_micros(6_000_000)));

    bench.advance(Span::from_micros(5_000_000));
    let decision = fast.take(7).await;
    decision.expect_allow();
    assert_eq!((decision.remaining(), decision.reset_after_span()), (3, Span::from_micros(1_700_000)));
    assert_eq!(slow.peek().await.remaining(), 8);
    // The same numbers again are the same policy.
    assert_eq!(under(1, Span::SECOND, 10).peek().await.remaining(), 8);
    bench.advance(Span::from_micros(1_700_000));
    assert_eq!(slow.peek().await.remaining(), 10);
}
