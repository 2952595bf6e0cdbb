//! Which counter a key means: never another's, and several together or not at all.

use tollgate_core::{Ask, Carry, Micros, Quota, Rule, Store, StoreError, Take, Verb, bounds::MAX_KEY_BYTES};

use super::Bench;
use crate::gate::Expect;

fn log(limit: u64) -> Rule {
    Rule::sliding_log("log", Quota::per_second(limit))
}

/// A request for two keys is charged to both or to neither.
pub async fn several_keys_all_or_none<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(5)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    bob.take(3).await.expect_allow();

    let both = [alice.ask(), bob.ask()];
    let told = bench.decide(&both, Verb::Take(Take::now(2))).await.unwrap();
    told.expect_allow();
    assert_eq!(told.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [3, 0]);

    let refused = bench.decide(&both, Verb::Take(Take::now(1))).await.unwrap();
    assert_eq!(refused.expect_deny(), Micros::SECOND);
    assert_eq!((alice.remaining().await, bob.remaining().await), (3, 0), "nobody was charged");
    bench.decide(&both, Verb::Take(Take::now(6))).await.unwrap().expect_never();
    assert_eq!((alice.remaining().await, bob.remaining().await), (3, 0), "nobody was charged");
}

/// Each of several keys may bear a part of its own; one that bears none is only looked at.
pub async fn several_keys_bear_different_parts<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(10)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    let carol = bench.key_under(alice.policy.clone(), "carol");
    let left = async || (alice.remaining().await, bob.remaining().await, carol.remaining().await);

    let parts = [alice.ask(), bob.ask().times(3), carol.ask().times(0)];
    bench.decide(&parts, Verb::Take(Take::now(2))).await.unwrap().expect_allow();
    assert_eq!(left().await, (8, 4, 10));
    bench.decide(&parts, Verb::Take(Take::now(2))).await.unwrap().expect_deny();
    assert_eq!(left().await, (8, 4, 10), "nobody was charged");
    bench.decide(&parts, Verb::Take(Take::now(4))).await.unwrap().expect_never();

    let alone = [bob.ask().times(4)];
    bench.decide(&alone, Verb::Take(Take::now(1))).await.unwrap().expect_allow();
    assert_eq!(left().await, (8, 0, 10));
    bench.decide(&[bob.ask().times(0)], Verb::Take(Take::now(1))).await.unwrap().expect_allow();
}

/// Where rules count refused requests, every key is charged, those before and after the one that refused.
pub async fn several_keys_count_a_refused_request<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let alice = bench.key([log(10).count_refused(true)]);
    let bob = bench.key_under(alice.policy.clone(), "bob");
    let carol = bench.key_under(alice.policy.clone(), "carol");
    let left = async || (alice.remaining().await, bob.remaining().await, carol.remaining().await);
    bob.take(9).await.expect_allow();

    let all = [alice.ask(), bob.ask(), carol.ask().times(3)];
    bench.decide(&all, Verb::Take(Take::now(2))).await.unwrap().expect_deny();
    assert_eq!(left().await, (8, 0, 4));
    bench.decide(&all, Verb::Take(Take::now(4))).await.unwrap().expect_never();
    assert_eq!(left().await, (4, 0, 0));
}

/// The keys may live under different policies.
pub async fn several_keys_of_several_policies<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let per_user = bench.install(bench.policy("user", [log(5)]), Carry::Keep);
    let bucket = Rule::token_bucket("bucket", Quota::per_minute(7));
    let per_team =
        bench.install(bench.policy("team", [bucket, Rule::fixed_window("day", Quota::per_day(9))]), Carry::Keep);
    let (user, team) = (bench.key_under(per_user, "same"), bench.key_under(per_team, "same"));
    let told = bench.decide(&[user.ask(), team.ask()], Verb::Take(Take::now(4))).await.unwrap();
    told.expect_allow();
    assert_eq!(told.rules.iter().map(|rule| rule.remaining).collect::<Vec<_>>(), [1, 3, 5]);
    bench.decide(&[team.ask(), user.ask()], Verb::Take(Take::now(2))).await.unwrap().expect_deny();
    assert_eq!((user.remaining().await, team.remaining().await), (1, 3));
}

/// One who asks for several keys goes when the last of them is ready, and all are charged for then.
pub async fn several_keys_wait_for_the_slowest<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let fast = bench.key([log(1)]);
    let slow = bench.install(bench.policy("slow", [Rule::sliding_log("log", Quota::per_minute(1))]), Carry::Keep);
    let slow = bench.key_under(slow, "key");
    slow.take(1).await.expect_allow();
    let both = [fast.ask(), slow.ask()];
    let told = bench.decide(&both, Verb::Take(Take::within(1, Micros::HOUR))).await.unwrap();
    assert_eq!(told.expect_allow(), Micros::MINUTE);
    // The fast key is spoken for at that minute, so nobody goes before.
    assert_eq!(fast.take(1).await.expect_deny(), Micros::MINUTE + Micros::SECOND);
}

/// The same key under another policy or in another domain is somebody else.
pub async fn keys_do_not_meet_across_policies_and_domains<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let names =
        [("a", "b"), ("a", "bb"), ("ab", "b"), ("b", "a"), ("a:b", "c"), ("a", "b:c"), ("a}", "{b"), ("A", "b")];
    for (domain, policy) in names {
        let policy = bench.policy(policy, [log(1)]).in_domain(format!("{}-{domain}", bench.domain)).unwrap();
        let handle = bench.install(policy, Carry::Keep);
        for key in ["k", "b:k", "c:k", ""] {
            bench.key_under(handle.clone(), key).take(1).await.expect_allow();
            bench.key_under(handle.clone(), key).take(1).await.expect_deny();
        }
    }
}

/// Spaces, separators, braces, case, accents and nothing at all make different keys.
pub async fn odd_keys_are_told_apart<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
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

/// Refused, not cut: a cut key could be somebody else's.
pub async fn too_long_keys_are_refused<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let policy = bench.key([log(1)]).policy;
    let (longest, too_long) = ("x".repeat(MAX_KEY_BYTES), "x".repeat(MAX_KEY_BYTES + 1));
    bench.key_under(policy.clone(), &longest).take(1).await.expect_allow();
    for verb in [Verb::Take(Take::now(1)), Verb::Peek, Verb::Reset] {
        let told = bench.decide(&[Ask::new(&policy, &too_long)], verb).await;
        let refused =
            matches!(told, Err(StoreError::KeyTooLong { found, max }) if found == max + 1 && max == MAX_KEY_BYTES);
        assert!(refused, "{verb:?}: {told:?}");
    }
}

/// Anything but a take is about one key.
pub async fn only_a_take_is_for_several_keys<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let one = bench.key([log(5)]);
    let other = bench.key_under(one.policy.clone(), "other");
    one.take(5).await.expect_allow();
    for verb in [Verb::Peek, Verb::Refund { cost: 1, at: None }, Verb::Penalize { cost: 1 }, Verb::Reset] {
        let told = bench.decide(&[one.ask(), other.ask()], verb).await;
        assert!(matches!(told, Err(StoreError::OneKeyOnly { found: 2, .. })), "{verb:?}: {told:?}");
    }
    assert_eq!((one.remaining().await, other.remaining().await), (0, 5), "nothing was done");
}

/// A key can be charged only once per request.
pub async fn one_key_named_twice_is_refused<S: Store, T: Fn(Micros)>(bench: &Bench<'_, S, T>) {
    let key = bench.key([log(5)]);
    let told = bench.decide(&[key.ask(), key.ask()], Verb::Take(Take::now(1))).await;
    assert!(matches!(told, Err(StoreError::SameKeyTwice { .. })), "{told:?}");
    assert_eq!(key.remaining().await, 5, "nothing was charged");
}
