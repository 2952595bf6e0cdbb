//! Laws of a decision in every store: never over the limit, denials change nothing, waits are exact.

use std::time::Duration;

use ratekeeper_core::{
    Align, DecidedBy, Decision, OnQuotaChange, Quota, RetryAfter, Rule, Span, Store, Timestamp, Verdict,
};

use super::Bench;
use crate::gate::Expect;

/// Ten a second, by every algorithm that admits ten at once and has room again within two seconds.
fn tens() -> [Rule; 8] {
    let quota = Quota::per_second(10);
    [
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky", quota),
        Rule::fixed_window("window", quota),
        Rule::fixed_window_aligned("first request", quota, Align::FirstRequest),
        Rule::sliding_log("log", quota),
        Rule::sliding_counter("counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(1)),
    ]
}

/// Twenty ask, ten pass.
pub async fn never_over_the_limit<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let mut admitted = 0;
        for _ in 0..20 {
            admitted += u64::from(key.take(1).await.is_allowed());
        }
        assert_eq!(admitted, 10, "{name}");
    }
}

/// A hundred denied requests leave the key exactly as it was.
pub async fn a_denial_changes_nothing<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(7).await.expect_allow();
        let before = key.peek().await;
        for _ in 0..100 {
            key.take(4).await.expect_deny();
        }
        assert_eq!(key.peek().await, before, "{name}");
        key.take(3).await.expect_allow();
    }
}

/// Waiting exactly `retry_after` passes; one microsecond less does not.
pub async fn retry_after_is_exact<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(10).await.expect_allow();
        let retry = key.take(3).await.expect_deny();
        bench.advance(retry - Span::from_micros(1));
        assert_eq!(key.take(3).await.expect_deny(), Span::from_micros(1), "{name}");
        bench.advance(Span::from_micros(1));
        key.take(3).await.expect_allow();
    }
}

/// A cost above the limit is `never`.
pub async fn cost_above_the_limit_is_never<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key =
        bench.key([Rule::sliding_log("small", Quota::per_second(3)), Rule::fixed_window("big", Quota::per_day(9))]);
    let decision = key.take_within(4, Span::DAY).await;
    decision.expect_never();
    assert_eq!((decision.decided_by, decision.retry_after()), (DecidedBy::Rule(0), RetryAfter::Never));
    assert_eq!(key.peek().await.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [3, 9]);
    key.take(10).await.expect_never();
}

/// Once everything has drained, a key is back in its initial state.
pub async fn a_drained_key_is_in_its_initial_state<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in tens() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let decision = key.take(10).await;
        bench.advance(decision.reset_after_span());
        let rested = key.peek().await;
        assert_eq!((rested.remaining(), rested.reset_after_span()), (10, Span::ZERO), "{name}");
        assert_eq!(key.take(10).await.remaining(), 0, "{name}");
        bench.advance(Span::DAY);
        key.take(10).await.expect_allow();
    }
}

/// A request that one rule denies charges no other rule, and all report their numbers.
pub async fn all_rules_or_none<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([
        Rule::sliding_log("log", Quota::per_second(5)),
        Rule::token_bucket("bucket", Quota::per_minute(100)),
        Rule::fixed_window("window", Quota::per_hour(1_000)),
    ]);
    key.take(4).await.expect_allow();
    let refused = key.take(2).await;
    assert_eq!((refused.expect_deny(), refused.decided_by), (Span::SECOND, DecidedBy::Rule(0)));
    assert_eq!(refused.rules[1].verdict, Verdict::Allow { wait: Span::ZERO });
    assert_eq!(refused.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [1, 96, 996]);
    assert_eq!(refused.rules.iter().map(|rule| rule.limit).collect::<Vec<_>>(), [5, 100, 1_000]);
}

/// A refused request is charged, under the rules that count it, as far as they have permits left; `retry_after` is true of
/// the state it leaves.
pub async fn refused_requests_are_counted_where_a_rule_says_so<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in tens().into_iter().filter(|rule| rule.name() != "concurrency") {
        let name = rule.name().to_owned();
        let other = Rule::fixed_window("other", Quota::per_hour(100));
        let policy = bench.policy(&name, [rule.count_refused(true), other]);
        let key = bench.key_under(bench.install(policy, OnQuotaChange::Keep), &name);
        key.take(7).await.expect_allow();
        let refused = key.take(4).await;
        let decision = |decision: &Decision| decision.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>();
        assert_eq!((decision(&refused), refused.decided_by), (vec![0, 93], DecidedBy::Rule(0)), "{name}");
        let retry = refused.expect_deny();
        bench.advance(retry);
        key.take(4).await.expect_allow();
        key.take(11).await.expect_never();
        assert_eq!(decision(&key.peek().await), [0, 89], "{name}: what can never pass takes what is left");
    }
}

/// Look first, pay afterwards: a look charges nothing, and passes while something is left.
pub async fn a_look_needs_a_permit_where_refused_requests_are_counted<S: Store, T: Fn(Timestamp)>(
    bench: &Bench<'_, S, T>,
) {
    let key = bench.key([Rule::fixed_window("hour", Quota::per_hour(1_000)).count_refused(true)]);
    for (cost, left) in [(0, 1_000), (600, 400), (0, 400)] {
        assert_eq!(key.take(cost).await.remaining(), left);
    }
    assert_eq!(key.take(600).await.remaining(), 0);
    let retry = key.take(0).await.expect_deny();
    assert_eq!(key.take(0).await.expect_deny(), retry);
    key.peek().await.expect_allow();
    bench.advance(retry);
    key.take(0).await.expect_allow();
}

/// The store says what time it is, and it is the time that was set.
pub async fn the_stores_clock_decides<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    assert_eq!(bench.store.now(), bench.now());
    bench.advance(Span::from_micros(1_234_567));
    assert_eq!(bench.store.now(), bench.now());
}
