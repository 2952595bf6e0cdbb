//! Identity of keys, and requests for several keys: all are charged or none.

use ratekeeper_core::{
    Ask, OnQuotaChange, Quota, Rule, Span, Store, StoreError, Take, Timestamp, Verb, bounds::MAX_KEY_BYTES,
};

use super::Bench;
use crate::gate::Expect;

const TAKE: Verb = Verb::Take(Take::now());

fn log(limit: u64) -> Rule {
    Rule::sliding_log("log", Quota::per_second(limit))
}

/// A request for two keys is charged to both or to neither.
pub async fn several_keys_all_or_none<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(5)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    bob.take(3).await.expect_allow();

    let both = |cost| [alice.ask().cost(cost), bob.ask().cost(cost)];
    let result = bench.decide(&both(2), TAKE).await.unwrap();
    result.expect_allow();
    assert_eq!(result.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [3, 0]);

    let refused = bench.decide(&both(1), TAKE).await.unwrap();
    assert_eq!(refused.expect_deny(), Span::SECOND);
    assert_eq!((alice.remaining().await, bob.remaining().await), (3, 0), "nothing was charged");
    bench.decide(&both(6), TAKE).await.unwrap().expect_never();
    assert_eq!((alice.remaining().await, bob.remaining().await), (3, 0), "nothing was charged");
}

/// Each of several keys may have another cost; one with a cost of 0 is only looked at.
pub async fn several_keys_have_different_costs<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(10)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    let carol = bench.key_under(alice.policy.clone(), "carol");
    let left = async || (alice.remaining().await, bob.remaining().await, carol.remaining().await);

    let parts = |alices, bobs| [alice.ask().cost(alices), bob.ask().cost(bobs), carol.ask().cost(0)];
    bench.decide(&parts(2, 6), TAKE).await.unwrap().expect_allow();
    assert_eq!(left().await, (8, 4, 10));
    bench.decide(&parts(2, 6), TAKE).await.unwrap().expect_deny();
    assert_eq!(left().await, (8, 4, 10), "nothing was charged");
    bench.decide(&parts(4, 12), TAKE).await.unwrap().expect_never();

    let alone = [bob.ask().cost(4)];
    bench.decide(&alone, TAKE).await.unwrap().expect_allow();
    assert_eq!(left().await, (8, 0, 10));
    bench.decide(&[bob.ask().cost(0)], TAKE).await.unwrap().expect_allow();
}

/// Where rules count refused requests, every key is charged, those before and after the one that refused.
pub async fn several_keys_count_a_refused_request<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(10).count_refused(true)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    let carol = bench.key_under(alice.policy.clone(), "carol");
    let left = async || (alice.remaining().await, bob.remaining().await, carol.remaining().await);
    bob.take(9).await.expect_allow();

    let all = |cost, carols| [alice.ask().cost(cost), bob.ask().cost(cost), carol.ask().cost(carols)];
    bench.decide(&all(2, 6), TAKE).await.unwrap().expect_deny();
    assert_eq!(left().await, (8, 0, 4));
    bench.decide(&all(4, 12), TAKE).await.unwrap().expect_never();
    assert_eq!(left().await, (4, 0, 0));
}

/// The keys may be under different policies.
pub async fn several_keys_of_several_policies<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let per_user = bench.install(bench.policy("user", [log(5)]), OnQuotaChange::Keep);
    let bucket = Rule::token_bucket("bucket", Quota::per_minute(7));
    let per_team = bench
        .install(bench.policy("team", [bucket, Rule::fixed_window("day", Quota::per_day(9))]), OnQuotaChange::Keep);
    let (user, team) = (bench.key_under(per_user, "same"), bench.key_under(per_team, "same"));
    let result = bench.decide(&[user.ask().cost(4), team.ask().cost(4)], TAKE).await.unwrap();
    result.expect_allow();
    assert_eq!(result.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [1, 3, 5]);
    bench.decide(&[team.ask().cost(2), user.ask().cost(2)], TAKE).await.unwrap().expect_deny();
    assert_eq!((user.remaining().await, team.remaining().await), (1, 3));
}

/// A request for several keys is admitted when the last of them is, and all are charged for that time.
pub async fn several_keys_wait_for_the_slowest<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let fast = bench.key([log(1)]);
    let slow =
        bench.install(bench.policy("slow", [Rule::sliding_log("log", Quota::per_minute(1))]), OnQuotaChange::Keep);
    let slow = bench.key_under(slow, "key");
    slow.take(1).await.expect_allow();
    let both = [fast.ask(), slow.ask()];
    let result = bench.decide(&both, Verb::Take(Take::within(Span::HOUR))).await.unwrap();
    assert_eq!(result.expect_allow(), Span::MINUTE);
    // The fast key is reserved for that minute, so no request passes before.
    assert_eq!(fast.take(1).await.expect_deny(), Span::MINUTE + Span::SECOND);
}

/// The same key under another policy or in another domain is a different key.
pub async fn keys_do_not_meet_across_policies_and_domains<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let names =
        [("a", "b"), ("a", "bb"), ("ab", "b"), ("b", "a"), ("a:b", "c"), ("a", "b:c"), ("a}", "{b"), ("A", "b")];
    for (domain, policy) in names {
        let policy = bench.policy(policy, [log(1)]).in_domain(format!("{}-{domain}", bench.domain)).unwrap();
        let handle = bench.install(policy, OnQuotaChange::Keep);
        for key in ["k", "b:k", "c:k", ""] {
            bench.key_under(handle.clone(), key).take(1).await.expect_allow();
            bench.key_under(handle.clone(), key).take(1).await.expect_deny();
        }
    }
}

/// Spaces, separators, braces, case, accents and nothing at all make different keys.
pub async fn unusual_keys_are_distinct<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let policy = bench.key([log(1)]).policy;
    let odd = [
        "", " ", "a", "A", "a ", " a", "a:b", "a|b", "{a}b", "{a}c", "a\0", "a\0\0", "a\nb", "ä", "a\u{308}", "🦀",
        "%61",
    ];
    for key in odd {
        bench.key_under(policy.clone(), key).take(1).await.expect_allow();
    }
    for key in odd {
        bench.key_under(policy.clone(), key).take(1).await.expect_deny();
    }
    // Long keys that differ only at their ends, too.
    for end in ["1", "2"] {
        let long = format!("{}{end}", "x".repeat(1_000));
        bench.key_under(policy.clone(), &long).take(1).await.expect_allow();
    }
}

/// Refused, not cut: a cut key could equal another one.
pub async fn too_long_keys_are_refused<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let policy = bench.key([log(1)]).policy;
    let (longest, too_long) = ("x".repeat(MAX_KEY_BYTES), "x".repeat(MAX_KEY_BYTES + 1));
    bench.key_under(policy.clone(), &longest).take(1).await.expect_allow();
    for verb in [TAKE, Verb::Peek, Verb::Reset] {
        let result = bench.decide(&[Ask::new(&policy, &too_long)], verb).await;
        let refused =
            matches!(result, Err(StoreError::KeyTooLong { found, max }) if found == max + 1 && max == MAX_KEY_BYTES);
        assert!(refused, "{verb:?}: {result:?}");
    }
}

/// Anything but a take is about one key.
pub async fn only_a_take_is_for_several_keys<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let one = bench.key([log(5)]);
    let other = bench.key_under(one.policy.clone(), "other");
    one.take(5).await.expect_allow();
    for verb in [Verb::Peek, Verb::Refund { at: None }, Verb::Penalize, Verb::Reset] {
        let result = bench.decide(&[one.ask(), other.ask()], verb).await;
        assert!(
            matches!(result, Err(StoreError::OneKeyOnly { verb: named, found: 2 }) if named == verb.name()),
            "{verb:?}: {result:?}"
        );
    }
    assert_eq!((one.remaining().await, other.remaining().await), (0, 5), "nothing was done");
}

/// A key can be charged only once per request.
pub async fn one_key_named_twice_is_refused<S: Store, T: Fn(Timestamp)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([log(5)]);
    let result = bench.decide(&[key.ask(), key.ask()], TAKE).await;
    assert!(matches!(result, Err(StoreError::SameKeyTwice { .. })), "{result:?}");
    assert_eq!(key.remaining().await, 5, "nothing was charged");
}
