//! Foreign values under the store's keys: of other programs, damaged, of other rules or of another version.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

use std::time::Duration;

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Store, StoreError, Take, Verb};
use ratekeeper_redis::{OnForeignState, RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::{
    random::Random,
    servers::{RedisServer, Reply},
};

struct Fixture<'a> {
    server: &'a RedisServer,
    store: RedisStore,
    policy: RedisPolicy,
}

/// The name of the one key on the server.
const NAME: &[u8] = b"ratekeeper:1:/policy:{key}";

impl<'a> Fixture<'a> {
    async fn at(server: &'a RedisServer, answer: OnForeignState, rules: impl IntoIterator<Item = Rule>) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_secs(10)).on_foreign_state(answer);
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("policy", rules).unwrap(), OnQuotaChange::Keep).unwrap();
        Self { server, store, policy }
    }

    async fn ask(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.ask_n(1, verb).await
    }

    async fn ask_n(&self, cost: u64, verb: Verb) -> Result<Decision, StoreError> {
        self.store.decide(&[Ask::new(&self.policy, "key").cost(cost)], verb).await
    }

    async fn take(&self, cost: u64) -> Decision {
        self.ask_n(cost, Verb::Take(Take::now())).await.unwrap()
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

/// Foreign values, each of a different kind.
fn foreign_values(genuine: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let other = |index: usize, value: u8| {
        let mut other = genuine.to_vec();
        other[index] = value;
        other
    };
    vec![
        ("nothing but a name", Vec::new()),
        ("a number", b"42".to_vec()),
        ("plain text", b"text of another application, longer than a value of ours".to_vec()),
        ("a state cut short", genuine[..genuine.len() - 1].to_vec()),
        ("a state cut to its tag", genuine[..6].to_vec()),
        ("a state with a tail", [genuine, b"x"].concat()),
        ("rules without a stored definition", other(5, genuine[5] ^ 1)),
        ("a later version", other(0, b'V')),
    ]
}

/// A foreign value is left alone, counted and named in errors; rules decide by `on_store_failure`.
#[tokio::test]
async fn a_foreign_value_is_left_alone_by_default() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, OnForeignState::Fail, rules()).await;
    for (met, (what, value)) in (1..).zip(foreign_values(&fixture.genuine().await)) {
        fixture.put(&value);
        assert_eq!(fixture.take(1).await.source, Source::Local, "{what}");
        assert_eq!(fixture.store.counts().foreign_states, 2 * met - 1, "{what}");
        let error = fixture.ask(Verb::Penalize).await.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{what}: {error}");
        assert_eq!(fixture.store.counts().foreign_states, 2 * met, "{what}");
        assert_eq!(fixture.found(), value, "{what}");
    }
}

/// `Spent` replaces a foreign value by an exhausted key, which recovers.
#[tokio::test]
async fn a_foreign_value_can_be_replaced_by_an_exhausted_key() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, OnForeignState::Spent, [Rule::token_bucket("r", Quota::per_second(20))]).await;
    for (what, value) in foreign_values(&fixture.genuine().await) {
        fixture.put(&value);
        let decision = fixture.take(5).await;
        assert_eq!(decision.source, Source::Store, "{what}");
        let wait = decision.verdict.retry_after_span().unwrap();
        assert!(!decision.is_allowed() && wait.as_micros() > 0, "{what}: {decision:?}");
        tokio::time::sleep(Duration::from(wait)).await;
        assert!(fixture.take(5).await.is_allowed(), "{what}");
    }
    assert_eq!(fixture.store.counts().foreign_states, 8);
}

/// Every algorithm is exhausted, concurrency included.
#[tokio::test]
async fn spent_exhausts_every_algorithm() {
    let server = RedisServer::start();
    let quota = Quota::per_minute(10);
    let all = [
        Rule::token_bucket("token bucket", quota),
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky bucket", quota),
        Rule::fixed_window("fixed window", quota),
        Rule::sliding_log("sliding log", quota),
        Rule::sliding_counter("sliding counter", quota),
        Rule::concurrency("concurrency", 10, Duration::from_secs(60)),
    ];
    for rule in all {
        let name = rule.name().to_owned();
        let fixture = Fixture::at(&server, OnForeignState::Spent, [rule]).await;
        fixture.put(b"not ours");
        let decision = fixture.take(1).await;
        assert!(!decision.is_allowed() && decision.source == Source::Store, "{name}: {decision:?}");
        assert_eq!(decision.remaining(), 0, "{name}");
    }
}

/// `Fresh` replaces a foreign value by an initial state.
#[tokio::test]
async fn a_foreign_value_can_be_replaced_by_an_initial_state() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, OnForeignState::Fresh, rules()).await;
    for (what, value) in foreign_values(&fixture.genuine().await) {
        fixture.put(&value);
        let decision = fixture.take(60).await;
        assert!(decision.is_allowed() && decision.source == Source::Store, "{what}: {decision:?}");
        assert!(!fixture.take(1).await.is_allowed(), "{what}");
    }
}

/// A list, a hash or a set belongs to another program and is never replaced.
#[tokio::test]
async fn a_value_of_another_type_is_left_alone() {
    let server = RedisServer::start();
    for answer in [OnForeignState::Fail, OnForeignState::Spent, OnForeignState::Fresh] {
        let fixture = Fixture::at(&server, answer, rules()).await;
        let _ = server.command(&[b"DEL".as_slice(), NAME]).expect_ok();
        let _ = server.command(&[b"RPUSH".as_slice(), NAME, b"theirs"]).expect_ok();
        assert_eq!(fixture.take(1).await.source, Source::Local, "{answer:?}");
        let error = fixture.ask(Verb::Penalize).await.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{answer:?}: {error}");
        assert_eq!(fixture.store.counts().foreign_states, 2, "{answer:?}");
        assert_eq!(server.command(&[b"LLEN".as_slice(), NAME]).integer(), 1, "{answer:?}");
    }
}

/// Random bytes are recognized as foreign, never read as an initial state, and left as they are.
#[tokio::test]
async fn random_bytes_are_never_read_as_a_state() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, OnForeignState::Fail, rules()).await;
    let genuine = fixture.genuine().await;
    let mut random = Random::new(20_261_116);
    for round in 0..ROUNDS {
        let length = random.below(2 * genuine.len() as u64);
        let mut value: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
        // Half of them begin like a state of these rules, with another length.
        if round % 2 == 0 && value.len() > 6 && value.len() != genuine.len() {
            value[..6].copy_from_slice(&genuine[..6]);
        } else if value.first() == Some(&genuine[0]) {
            continue;
        }
        fixture.put(&value);
        let before = fixture.store.counts().foreign_states;
        let decision = fixture.take(1).await;
        if fixture.store.counts().foreign_states == before + 1 {
            assert_eq!(fixture.found(), value);
            assert_ne!(decision.source, Source::Store);
        } else {
            panic!("{} was read as {decision:?}", value.escape_ascii());
        }
    }
}

/// One wrong byte in a value may be noticed or not; in both cases there is a valid decision and no script error.
#[tokio::test]
async fn one_wrong_byte_never_breaks_a_script() {
    let server = RedisServer::start();
    let fixture = Fixture::at(&server, OnForeignState::Spent, rules()).await;
    let genuine = fixture.genuine().await;
    let mut random = Random::new(3);
    for _ in 0..ROUNDS {
        let mut value = genuine.clone();
        let place = usize::try_from(random.below(value.len() as u64)).unwrap();
        value[place] = byte(&mut random);
        fixture.put(&value);
        let decision = fixture.take(1).await;
        let shown = value.escape_ascii();
        assert_eq!(decision.source, Source::Store, "{shown}");
        assert!(decision.rules.iter().all(|rule| rule.remaining <= rule.limit), "{shown}: {decision:?}");
    }
}

fn byte(random: &mut Random) -> u8 {
    random.bits().to_le_bytes()[0]
}

const ROUNDS: u32 = 2_000;
