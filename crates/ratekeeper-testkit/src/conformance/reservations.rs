//! Reservations: one call charges permits for a later time, and no other request passes before it.

use ratekeeper_core::{Quota, Rule, Span, Store, Timestamp, Verb};

use super::Bench;
use crate::gate::Expect;

const LONG_WAIT: Span = Span::HOUR;

/// Waiters get ascending times, and a request that does not wait cannot pass between them.
pub async fn reservations_are_first_come_first_served<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in [
        Rule::token_bucket("bucket", Quota::per_second(1)),
        Rule::leaky_bucket_shaped("shaped", Quota::per_second(1).capacity(9)),
        Rule::fixed_window("window", Quota::per_second(1)),
        Rule::sliding_log("log", Quota::per_second(1)),
        Rule::sliding_counter("counter", Quota::per_second(1)),
    ] {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(1).await.expect_allow();
        let mut last = Span::ZERO;
        for _ in 0..4 {
            let wait = key.take_within(1, LONG_WAIT).await.expect_allow();
            assert!(wait > last, "{name}: {wait} after {last}");
            last = wait;
        }
        // One microsecond before the last reservation is due, no other request gets its permit.
        bench.advance(last - Span::from_micros(1));
        let decision = key.take(1).await;
        assert!(!decision.is_allowed() || decision.verdict.wait() > Span::from_micros(1), "{name}: {decision:?}");
        bench.advance(Span::MINUTE);
    }
}

/// A wait longer than `max_wait` is reported, and nothing is reserved.
pub async fn a_wait_beyond_max_wait_reserves_nothing<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    key.take(1).await.expect_allow();
    for _ in 0..3 {
        assert_eq!(key.take_within(1, Span::SECOND - Span::from_micros(1)).await.expect_deny(), Span::SECOND);
    }
    assert_eq!(key.take_within(1, Span::SECOND).await.expect_allow(), Span::SECOND);
}

/// With reservations at 1 s and 2 s, a refund of the first changes nothing, because the second was scheduled after it. A
/// refund of the second returns its permit.
pub async fn only_the_last_reservation_is_returned<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    let (first, second) = (bench.now() + Span::SECOND, bench.now() + Span::from_secs(2));
    key.take(1).await.expect_allow();
    key.take_within(1, LONG_WAIT).await.expect_allow();
    key.take_within(1, LONG_WAIT).await.expect_allow();

    let _ = key.verb(Verb::Refund { at: Some(first) }).await;
    assert_eq!(key.take(1).await.expect_deny(), Span::from_secs(3), "the first stays charged");
    let _ = key.verb(Verb::Refund { at: Some(second) }).await;
    assert_eq!(key.take(1).await.expect_deny(), Span::from_secs(2), "the last was refunded");
}

/// `Store::cancel`, which is called when a waiting future is dropped. A store may do it in the background.
pub async fn a_dropped_reservation_is_cancelled<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    key.take(1).await.expect_allow();
    let wait = key.take_within(1, LONG_WAIT).await.expect_allow();
    bench.store.cancel(key.ask(), bench.now() + wait, None);
    for _ in 0..POLLS {
        if key.take(1).await.expect_deny() == Span::SECOND {
            return;
        }
        std::thread::yield_now();
    }
    panic!("a cancelled reservation was not refunded within {POLLS} polls");
}

/// Bound on the polls of a store that cancels in the background.
const POLLS: u32 = 10_000;
