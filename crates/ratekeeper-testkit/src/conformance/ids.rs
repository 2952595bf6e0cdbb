//! Requests with ids: charged once, finished once; and partial grants.

use ratekeeper_core::{
    Ask, Decision, LeaseId, OnExpiry, OnQuotaChange, Quota, RequestId, Rule, Source, Span, Store, StoreError, Take,
    Terms, Timestamp, Verb,
};

use super::{Bench, Key};
use crate::gate::Expect;

const TAKE: Verb = Verb::Take(Take::now());

fn id(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

fn rules() -> [Rule; 5] {
    [
        Rule::token_bucket("bucket", Quota::per_minute(10)),
        Rule::fixed_window("window", Quota::per_minute(10)),
        Rule::sliding_log("log", Quota::per_minute(10)),
        Rule::sliding_counter("counter", Quota::per_minute(10)),
        Rule::concurrency("concurrency", 10, Span::MINUTE.into()),
    ]
}

impl<S: Store, T: Fn(Timestamp)> Key<'_, S, T> {
    async fn take_with(&self, cost: u64, terms: Terms) -> Decision {
        // Another lease than that of takes without terms.
        let take = Verb::Take(Take::now().with_lease(LeaseId(7)));
        self.bench.store.decide_with(&[self.ask().cost(cost)], take, terms).await.expect("the store decides")
    }

    async fn finish(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.bench.decide(&[self.ask()], verb).await
    }
}

/// The same id gets the same decision, whatever was charged meanwhile, and is charged once.
pub async fn a_charged_id_is_charged_once<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in rules() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let first = key.take_with(3, Terms::id(id("a"))).await;
        first.expect_allow();
        key.take_with(3, Terms::id(id("b"))).await.expect_allow();
        bench.advance(Span::SECOND);
        for _ in 0..3 {
            let again = key.take_with(3, Terms::id(id("a"))).await;
            assert_eq!(again, first.clone().with_source(Source::Repeated), "{name}");
        }
        let without = key.take_with(3, Terms::NONE).await;
        assert_eq!((without.expect_allow(), without.source), (Span::ZERO, Source::Store), "{name}");
        assert_eq!(key.remaining().await, 1, "{name}");
        // Another key does not know the id.
        key.bench.key_under(key.policy.clone(), "other").take_with(3, Terms::id(id("a"))).await.expect_allow();
        assert_eq!(key.bench.key_under(key.policy.clone(), "other").remaining().await, 7, "{name}");
        bench.advance(Span::HOUR);
    }
}

/// A refused id is decided anew.
pub async fn a_refused_id_is_decided_anew<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in [Rule::token_bucket("bucket", Quota::per_minute(10)), Rule::sliding_log("log", Quota::per_minute(10))] {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(10).await.expect_allow();
        key.take_with(5, Terms::id(id("a"))).await.expect_deny();
        bench.advance(Span::MINUTE);
        key.take_with(5, Terms::id(id("a"))).await.expect_allow();
        key.take_with(5, Terms::id(id("a"))).await.expect_allow();
        // Now the key is exhausted, and the id is still known.
        key.take(5).await.expect_allow();
        key.take_with(5, Terms::id(id("a"))).await.expect_allow();
        key.take_with(5, Terms::id(id("b"))).await.expect_deny();
    }
}

/// An id is known until its lifetime ends, not a microsecond longer.
pub async fn an_id_ends_with_its_lifetime<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::fixed_window("day", Quota::per_day(10))]);
    let terms = Terms::id(id("a")).lifetime(Span::from_secs(3));
    key.take_with(1, terms).await.expect_allow();
    bench.advance(Span::from_secs(3) - Span::MICROSECOND);
    assert_eq!(key.take_with(1, terms).await.source, Source::Repeated);
    bench.advance(Span::MICROSECOND);
    assert_eq!(key.take_with(1, terms).await.source, Source::Store);
    assert_eq!(key.remaining().await, 8);
    assert_eq!(key.take_with(1, terms).await.source, Source::Repeated);
}

/// A reservation has an id as well, and its wait is repeated.
pub async fn a_repeated_wait_is_reserved_once<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::token_bucket("bucket", Quota::per_second(1))]);
    let wait = Verb::Take(Take::within(Span::MINUTE));
    key.take(1).await.expect_allow();
    for _ in 0..3 {
        let decision = bench.store.decide_with(&[key.ask()], wait, Terms::id(id("a"))).await.unwrap();
        assert_eq!(decision.expect_allow(), Span::SECOND);
    }
    let other = bench.store.decide_with(&[key.ask()], wait, Terms::id(id("b"))).await.unwrap();
    assert_eq!(other.expect_allow(), Span::from_secs(2));
}

/// A commit corrects the charge once; the second has the result of the first, whatever it says.
pub async fn a_commit_settles_once<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in rules().into_iter().take(4) {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        for (id_text, actual, remaining) in [("less", 2, 8), ("more", 5, 3), ("none", 0, 3)] {
            let id = id(id_text);
            key.take_with(3, Terms::id(id)).await.expect_allow();
            for again in [actual, actual, 9] {
                let settled = key.finish(Verb::Commit { id, actual: again }).await.unwrap();
                assert_eq!((settled.granted, settled.remaining()), (Some(actual), remaining), "{name} {id_text}");
            }
            let cancelled = key.finish(Verb::Cancel { id }).await.unwrap();
            assert_eq!((cancelled.granted, cancelled.remaining()), (Some(actual), remaining), "{name} {id_text}");
            // The request itself, sent again late, is not charged again.
            key.take_with(3, Terms::id(id)).await.expect_allow();
            assert_eq!(key.remaining().await, remaining, "{name} {id_text}");
        }
    }
}

/// A cancel refunds once, and ends the lease.
pub async fn a_cancel_refunds_once<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in rules() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        key.take(4).await.expect_allow();
        key.take_with(3, Terms::id(id("a"))).await.expect_allow();
        for _ in 0..3 {
            let cancelled = key.finish(Verb::Cancel { id: id("a") }).await.unwrap();
            assert_eq!((cancelled.granted, cancelled.remaining()), (Some(0), 6), "{name}");
        }
    }
}

/// An id that was never charged, or whose lifetime has ended, cannot be finished.
pub async fn an_unknown_id_cannot_be_finished<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([Rule::fixed_window("day", Quota::per_day(10))]);
    let (a, b) = (id("a"), id("b"));
    key.take_with(3, Terms::id(a).lifetime(Span::SECOND)).await.expect_allow();
    key.take_with(11, Terms::id(b)).await.expect_never();
    for verb in [Verb::Commit { id: b, actual: 9 }, Verb::Cancel { id: b }] {
        assert!(matches!(key.finish(verb).await, Err(StoreError::UnknownId)), "{verb:?}");
    }
    bench.advance(Span::SECOND);
    assert!(matches!(key.finish(Verb::Cancel { id: a }).await, Err(StoreError::UnknownId)));
    assert_eq!(key.remaining().await, 7);
}

/// An id of several keys is charged once to all of them, and finished key by key.
pub async fn an_id_of_several_keys_is_charged_once<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let policy = bench.key([Rule::fixed_window("day", Quota::per_day(10))]).policy;
    let keys = ["one", "two", "three"].map(|key| bench.key_under(policy.clone(), key));
    let asks: Vec<Ask<'_, S::Policy>> = keys.iter().zip([3, 2, 0]).map(|(key, cost)| key.ask().cost(cost)).collect();
    let first = bench.store.decide_with(&asks, TAKE, Terms::id(id("a"))).await.unwrap();
    first.expect_allow();
    for _ in 0..2 {
        let again = bench.store.decide_with(&asks, TAKE, Terms::id(id("a"))).await.unwrap();
        assert_eq!(again, first.clone().with_source(Source::Repeated));
    }
    assert_eq!((keys[0].remaining().await, keys[1].remaining().await, keys[2].remaining().await), (7, 8, 10));
    let _ = keys[0].finish(Verb::Commit { id: id("a"), actual: 1 }).await.unwrap();
    let _ = keys[1].finish(Verb::Cancel { id: id("a") }).await.unwrap();
    assert!(matches!(keys[2].finish(Verb::Cancel { id: id("a") }).await, Err(StoreError::UnknownId)));
    assert_eq!((keys[0].remaining().await, keys[1].remaining().await, keys[2].remaining().await), (9, 10, 10));
}

/// A reservation that is neither committed nor cancelled stays charged, or is refunded exactly once when it expires.
pub async fn an_unfinished_reservation_expires<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in [Rule::fixed_window("window", Quota::per_day(10)), Rule::sliding_log("log", Quota::per_day(10))] {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let refunded = |text| Terms::id(id(text)).lifetime(Span::MINUTE).on_expiry(OnExpiry::Refund);
        key.take_with(1, Terms::id(id("kept")).lifetime(Span::MINUTE)).await.expect_allow();
        for text in ["open", "committed", "cancelled"] {
            key.take_with(2, refunded(text)).await.expect_allow();
            // Sent again: charged once, and later refunded once.
            assert_eq!(key.take_with(2, refunded(text)).await.source, Source::Repeated, "{name}");
        }
        let _ = key.finish(Verb::Commit { id: id("committed"), actual: 1 }).await.unwrap();
        let _ = key.finish(Verb::Cancel { id: id("cancelled") }).await.unwrap();
        assert_eq!(key.remaining().await, 6, "{name}");
        bench.advance(Span::MINUTE - Span::MICROSECOND);
        assert_eq!(key.remaining().await, 6, "{name}");
        bench.advance(Span::MICROSECOND);
        assert_eq!(key.remaining().await, 8, "{name}: the open one was refunded");
        key.take(8).await.expect_allow();
        assert_eq!(key.remaining().await, 0, "{name}");
        bench.advance(Span::MINUTE);
        assert_eq!(key.remaining().await, 0, "{name}: once");
        assert!(matches!(key.finish(Verb::Commit { id: id("open"), actual: 1 }).await, Err(StoreError::UnknownId)));
    }
}

/// The largest cost that passes now is granted, if it is enough.
pub async fn a_part_is_granted<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    for rule in rules() {
        let name = rule.name().to_owned();
        let key = bench.key_under(bench.key([rule]).policy, &name);
        let part = |least| Terms::NONE.at_least(least);
        for (cost, least, granted) in [(4, 2, 4), (4, 2, 4), (4, 2, 2), (4, 2, 0), (4, 0, 0)] {
            let decision = key.take_with(cost, part(least)).await;
            assert_eq!(decision.granted, Some(granted), "{name}: {cost} or at least {least}");
            assert_eq!(decision.is_allowed(), granted >= least, "{name}: {cost} or at least {least}");
        }
        key.take_with(20, part(11)).await.expect_never();
        // Less than the least passes now: the request waits for the least, if it may.
        let waits = Verb::Take(Take::within(Span::HOUR));
        let decision = bench.store.decide_with(&[key.ask().cost(5)], waits, part(2)).await.unwrap();
        assert_eq!(decision.granted, Some(2), "{name}");
        assert!(decision.expect_allow() > Span::ZERO, "{name}");
        bench.advance(Span::HOUR);
        // An id gets the same part again.
        for _ in 0..2 {
            let decision = key.take_with(20, part(1).with_id(id("a"))).await;
            assert_eq!((decision.granted, key.remaining().await), (Some(10), 0), "{name}");
        }
        bench.advance(Span::HOUR);
    }
}

/// Several keys are granted what the tightest of them can give; none gets more than its cost.
pub async fn a_part_suits_all_keys<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let policy = bench.key([Rule::fixed_window("day", Quota::per_day(10))]).policy;
    let tight = bench.policy("tight", [Rule::fixed_window("day", Quota::per_day(4))]);
    let tight = bench.key_under(bench.install(tight, OnQuotaChange::Keep), "key");
    let (one, two) = (bench.key_under(policy.clone(), "one"), bench.key_under(policy.clone(), "two"));
    let asks = [one.ask().cost(8), tight.ask().cost(9), two.ask().cost(2)];
    let decision = bench.store.decide_with(&asks, TAKE, Terms::NONE.at_least(1)).await.unwrap();
    assert_eq!((decision.expect_allow(), decision.granted), (Span::ZERO, Some(4)));
    assert_eq!((one.remaining().await, tight.remaining().await, two.remaining().await), (6, 0, 8));
}
