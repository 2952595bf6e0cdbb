//! Waiting in line: one call, one place, kept.

use tollgate_core::{Micros, Quota, Rule, Store, Verb};

use super::Bench;
use crate::gate::Expect;

const LONG: Micros = Micros::HOUR;

/// Waiters are told ascending moments, and a newcomer who only tries does not slip in between.
pub async fn reservations_are_first_come_first_served<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    for rule in [
        Rule::token_bucket("bucket", Quota::per_second(1)),
        Rule::leaky_bucket("shaped", Quota::per_second(1).capacity(9)).shaped(),
        Rule::fixed_window("window", Quota::per_second(1)),
        Rule::sliding_log("log", Quota::per_second(1)),
        Rule::sliding_counter("counter", Quota::per_second(1)),
    ] {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(1).await.expect_allow();
        let mut last = Micros::ZERO;
        for _ in 0..4 {
            let wait = key.take_within(1, LONG).await.expect_allow();
            assert!(wait > last, "{name}: {wait} after {last}");
            last = wait;
        }
        // When the last but one is due, the place of the last is still the last one's.
        bench.advance(last - Micros(1));
        let told = key.take(1).await;
        assert!(!told.is_allowed() || told.wait() > Micros(1), "{name}: {told:?}");
        bench.advance(Micros::MINUTE);
    }
}

/// A wait longer than the caller's patience is told, and nothing is booked for it.
pub async fn a_wait_beyond_patience_reserves_nothing<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    key.take(1).await.expect_allow();
    for _ in 0..3 {
        assert_eq!(key.take_within(1, Micros::SECOND - Micros(1)).await.expect_deny(), Micros::SECOND);
    }
    assert_eq!(key.take_within(1, Micros::SECOND).await.expect_allow(), Micros::SECOND);
}

/// The example of the design: with reservations at 1 s and 2 s, the first cannot be handed on, the second can.
pub async fn only_the_last_in_line_is_returned<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    let (first, second) = (bench.now() + Micros::SECOND, bench.now() + Micros::from_secs(2));
    key.take(1).await.expect_allow();
    key.take_within(1, LONG).await.expect_allow();
    key.take_within(1, LONG).await.expect_allow();

    let _ = key.verb(Verb::Refund { cost: 1, at: Some(first) }).await;
    assert_eq!(key.take(1).await.expect_deny(), Micros::from_secs(3), "the first counts as spent");
    let _ = key.verb(Verb::Refund { cost: 1, at: Some(second) }).await;
    assert_eq!(key.take(1).await.expect_deny(), Micros::from_secs(2), "the last was returned");
}

/// The same through the door for futures being dropped. It may take a store a moment, but not for ever.
pub async fn a_dropped_reservation_is_cancelled<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    key.take(1).await.expect_allow();
    let wait = key.take_within(1, LONG).await.expect_allow();
    bench.store.cancel(key.ask(), 1, bench.now() + wait, None);
    for _ in 0..MANY {
        if key.take(1).await.expect_deny() == Micros::SECOND {
            return;
        }
        std::thread::yield_now();
    }
    panic!("a cancelled reservation never came back");
}

/// Looks at a store that cancels in the background, each a step of its own.
const MANY: u32 = 10_000;
