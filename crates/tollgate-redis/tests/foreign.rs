//! Values under our keys that are not ours: somebody else's, damaged, of other rules or of another version.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use tollgate_core::{Ask, Carry, Decision, Policy, Quota, Rule, Source, Store, StoreError, Take, Verb};
use tollgate_redis::{OnForeignState, RedisConfig, RedisPolicy, RedisStore};
use tollgate_testkit::{
    random::Random,
    servers::{RedisServer, Reply},
};

struct Desk<'a> {
    server: &'a RedisServer,
    store: RedisStore,
    policy: RedisPolicy,
}

/// Where the state of the one key lies.
const NAME: &[u8] = b"tollgate:1:/desk:{key}";

impl<'a> Desk<'a> {
    async fn at(server: &'a RedisServer, answer: OnForeignState, rules: impl IntoIterator<Item = Rule>) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_secs(10)).on_foreign_state(answer);
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("desk", rules).unwrap(), Carry::Keep).unwrap();
        Self { server, store, policy }
    }

    async fn ask(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(&[Ask::new(&self.policy, "key")], verb).await
    }

    async fn take(&self, cost: u64) -> Decision {
        self.ask(Verb::Take(Take::now(cost))).await.unwrap()
    }

    fn put(&self, value: &[u8]) {
        let _ = self.server.command(&[b"SET".as_slice(), NAME, value, b"PX", b"600000"]).expect_ok();
    }

    fn found(&self) -> Vec<u8> {
        match self.server.command(&[b"GET".as_slice(), NAME]).expect_ok() {
            Reply::Bulk(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// A value that was written by the store itself.
    async fn genuine(&self) -> Vec<u8> {
        let _ = self.server.command(&[b"DEL".as_slice(), NAME]).expect_ok();
        assert_eq!(self.take(1).await.source, Source::Store);
        self.found()
    }
}

fn rules() -> [Rule; 2] {
    [Rule::token_bucket("bucket", Quota::per_minute(60)), Rule::sliding_log("log", Quota::per_minute(100))]
}

/// What may lie there instead of a state, each a different kind of wrong.
fn strangers(genuine: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let other = |index: usize, value: u8| {
        let mut other = genuine.to_vec();
        other[index] = value;
        other
    };
    vec![
        ("nothing but a name", Vec::new()),
        ("a number", b"42".to_vec()),
        ("plain text", b"somebody else's business entirely, and rather long".to_vec()),
        ("a state cut short", genuine[..genuine.len() - 1].to_vec()),
        ("a state cut to its tag", genuine[..6].to_vec()),
        ("a state with a tail", [genuine, b"x"].concat()),
        ("rules that nobody has written down", other(5, genuine[5] ^ 1)),
        ("a later version", other(0, b'V')),
    ]
}

/// Left alone, counted, named in errors, and answered by each rule's own word.
#[tokio::test]
async fn a_stranger_is_left_alone_and_the_rules_decide() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, OnForeignState::Fail, rules()).await;
    for (met, (what, value)) in (1..).zip(strangers(&desk.genuine().await)) {
        desk.put(&value);
        assert_eq!(desk.take(1).await.source, Source::Local, "{what}");
        assert_eq!(desk.store.counts().foreign_states, 2 * met - 1, "{what}");
        let error = desk.ask(Verb::Penalize { cost: 1 }).await.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{what}: {error}");
        assert_eq!(desk.store.counts().foreign_states, 2 * met, "{what}");
        assert_eq!(desk.found(), value, "{what}");
    }
}

/// Replaced by a key that has used up everything: nothing passes at first, and it heals.
#[tokio::test]
async fn a_stranger_can_be_taken_for_a_key_that_has_used_everything() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, OnForeignState::Spent, [Rule::token_bucket("r", Quota::per_second(20))]).await;
    for (what, value) in strangers(&desk.genuine().await) {
        desk.put(&value);
        let told = desk.take(5).await;
        assert_eq!(told.source, Source::Store, "{what}");
        let wait = told.retry_after().unwrap();
        assert!(!told.is_allowed() && wait.0 > 0, "{what}: {told:?}");
        tokio::time::sleep(Duration::from(wait)).await;
        assert!(desk.take(5).await.is_allowed(), "{what}");
    }
    assert_eq!(desk.store.counts().foreign_states, 8);
}

/// Every kind of rule is spent, places that are held included.
#[tokio::test]
async fn spent_means_spent_for_every_algorithm() {
    let server = RedisServer::start();
    let quota = Quota::per_minute(10);
    let all = [
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket("stepwise", quota).stepwise(),
        Rule::leaky_bucket("leaky bucket", quota),
        Rule::fixed_window("fixed window", quota),
        Rule::sliding_log("sliding log", quota),
        Rule::sliding_counter("sliding counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ];
    for rule in all {
        let name = rule.name().to_owned();
        let desk = Desk::at(&server, OnForeignState::Spent, [rule]).await;
        desk.put(b"not ours");
        let told = desk.take(1).await;
        assert!(!told.is_allowed() && told.source == Source::Store, "{name}: {told:?}");
        assert_eq!(told.remaining(), 0, "{name}");
    }
}

/// Only who asks for it starts afresh.
#[tokio::test]
async fn a_stranger_can_be_taken_for_a_new_key() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, OnForeignState::Fresh, rules()).await;
    for (what, value) in strangers(&desk.genuine().await) {
        desk.put(&value);
        let told = desk.take(60).await;
        assert!(told.is_allowed() && told.source == Source::Store, "{what}: {told:?}");
        assert!(!desk.take(1).await.is_allowed(), "{what}");
    }
}

/// A list, a hash or a set is not even a string. It was put there on purpose by somebody else, so it is never replaced.
#[tokio::test]
async fn another_kind_of_value_is_a_stranger_too() {
    let server = RedisServer::start();
    for answer in [OnForeignState::Fail, OnForeignState::Spent, OnForeignState::Fresh] {
        let desk = Desk::at(&server, answer, rules()).await;
        let _ = server.command(&[b"DEL".as_slice(), NAME]).expect_ok();
        let _ = server.command(&[b"RPUSH".as_slice(), NAME, b"theirs"]).expect_ok();
        assert_eq!(desk.take(1).await.source, Source::Local, "{answer:?}");
        let error = desk.ask(Verb::Penalize { cost: 1 }).await.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{answer:?}: {error}");
        assert_eq!(desk.store.counts().foreign_states, 2, "{answer:?}");
        assert_eq!(server.command(&[b"LLEN".as_slice(), NAME]).integer(), 1, "{answer:?}");
    }
}

/// Whatever bytes lie there: recognised, never read as a full key, and left as they are.
#[tokio::test]
async fn random_bytes_are_never_read_as_a_state() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, OnForeignState::Fail, rules()).await;
    let genuine = desk.genuine().await;
    let mut random = Random::new(20_261_116);
    for round in 0..ROUNDS {
        let length = random.below(2 * genuine.len() as u64);
        let mut value: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
        // Every other time they begin like a state of ours, of these rules, and of another length.
        if round % 2 == 0 && value.len() > 6 && value.len() != genuine.len() {
            value[..6].copy_from_slice(&genuine[..6]);
        } else if value.first() == Some(&genuine[0]) {
            continue;
        }
        desk.put(&value);
        let before = desk.store.counts().foreign_states;
        let told = desk.take(1).await;
        if desk.store.counts().foreign_states == before + 1 {
            assert_eq!(desk.found(), value);
            assert_ne!(told.source, Source::Store);
        } else {
            panic!("{} was read as {told:?}", value.escape_ascii());
        }
    }
}

/// One wrong byte in a state of ours may be noticed or not; either way there is a sane answer and no error.
#[tokio::test]
async fn one_wrong_byte_never_breaks_a_script() {
    let server = RedisServer::start();
    let desk = Desk::at(&server, OnForeignState::Spent, rules()).await;
    let genuine = desk.genuine().await;
    let mut random = Random::new(3);
    for _ in 0..ROUNDS {
        let mut value = genuine.clone();
        let place = usize::try_from(random.below(value.len() as u64)).unwrap();
        value[place] = byte(&mut random);
        desk.put(&value);
        let told = desk.take(1).await;
        let shown = value.escape_ascii();
        assert_eq!(told.source, Source::Store, "{shown}");
        assert!(told.rules.iter().all(|rule| rule.remaining <= rule.limit), "{shown}: {told:?}");
    }
}

fn byte(random: &mut Random) -> u8 {
    random.bits().to_le_bytes()[0]
}

const ROUNDS: u32 = 2_000;
