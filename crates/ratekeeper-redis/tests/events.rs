//! Log events of a store whose server is stopped, hangs, restarts, or holds foreign values.
//!
//! Each test runs on a current-thread runtime, so that a thread-local subscriber captures the events of its tasks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::time::{Duration, Instant};

use ratekeeper_core::{Ask, Decision, OnQuotaChange, OnStoreFailure, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::{
    LogLines,
    servers::{Process, RedisServer},
};
use support::poll_until;
use tracing::{Level, subscriber::DefaultGuard};

/// The captured events of one test.
struct Log {
    lines: LogLines,
    _guard: DefaultGuard,
}

impl Log {
    /// Captures the events of this thread from `level` on, until it is dropped.
    fn capture(level: Level) -> Self {
        let lines = LogLines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(level);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.all()
    }

    fn with(&self, text: &str) -> Vec<String> {
        self.lines.with(text)
    }

    /// Waits for a line with this text.
    async fn wait_for(&self, text: &str) {
        poll_until(&format!("line \"{text}\""), TIMEOUT, async || !self.with(text).is_empty()).await;
    }
}

struct Fixture {
    store: RedisStore,
    policy: RedisPolicy,
}

impl Fixture {
    async fn at(url: &str) -> Self {
        let config = RedisConfig::default().deadline(Duration::from_millis(300));
        let store = RedisStore::connect_with(url, config).await.unwrap();
        let policy = store.install(policy(1_000), OnQuotaChange::Keep).unwrap();
        Self { store, policy }
    }

    async fn take(&self, key: &str) -> Decision {
        self.store.decide(&[Ask::new(&self.policy, key)], Verb::Take(Take::now())).await.unwrap()
    }

    /// Takes until the decision has this source.
    async fn take_until(&self, key: &str, source: Source) {
        poll_until(&format!("decision by {source:?}"), TIMEOUT, async || self.take(key).await.source == source).await;
    }
}

fn policy(limit: u64) -> Policy {
    let local = Rule::token_bucket("local", Quota::per_day(limit));
    let open = Rule::token_bucket("open", Quota::per_day(limit)).on_store_failure(OnStoreFailure::Open);
    Policy::new("events", [local, open]).unwrap()
}

/// Store lost with its cause, fallback begins, store back with the duration, local grants charged, fallback ends: one line
/// each, without the password and the key.
#[tokio::test]
async fn an_outage_is_one_line_per_event() {
    let log = Log::capture(Level::INFO);
    let server = RedisServer::with().password("canary-password").start();
    let fixture = Fixture::at(&server.url()).await;
    assert_eq!(fixture.take("canary-key").await.source, Source::Store);
    assert!(log.lines().is_empty(), "{:?}", log.lines());

    server.kill();
    fixture.take_until("canary-key", Source::Local).await;
    log.wait_for("the store does not answer").await;
    log.wait_for("fallback begins").await;
    server.restart();
    log.wait_for("the store answers again after").await;
    fixture.take_until("canary-key", Source::Store).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    fixture.take_until("canary-key", Source::Store).await;
    log.wait_for("fallback ends").await;
    log.wait_for("local grants charged").await;

    let lost = &log.with("the store does not answer")[0];
    assert!(lost.contains("WARN") && lost.contains("ratekeeper_redis:"), "{lost}");
    assert!(lost.contains("no connection") && lost.contains(&server.address()), "{lost}");
    let begins = &log.with("fallback begins")[0];
    assert!(begins.contains("local_rules=1 open_rules=1 closed_rules=0"), "{begins}");
    assert_eq!(log.lines().len(), 5, "{:#?}", log.lines());
    assert!(!log.lines().concat().contains("canary"), "{:#?}", log.lines());
}

/// A server that hangs is an outage as well; DEBUG has the circuit breaker and the connections.
#[tokio::test]
async fn a_hanging_server_is_an_outage_and_debug_has_the_details() {
    let log = Log::capture(Level::DEBUG);
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    let _ = fixture.take("key").await;
    log.wait_for("script missing on the server").await;

    server.pause();
    log.wait_for("the store does not answer").await;
    server.resume();
    log.wait_for("the store answers again after").await;
    assert!(!log.with("DEBUG").is_empty() && !log.with("connected").is_empty(), "{:#?}", log.lines());
    assert_eq!(log.with("the store").len(), 2, "{:#?}", log.lines());
}

/// A server that is restarted every 200 ms is one outage, not one line each.
#[tokio::test]
async fn a_flapping_server_does_not_flood_the_log() {
    let log = Log::capture(Level::DEBUG);
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    let began = Instant::now();
    for _ in 0..8 {
        server.kill();
        fixture.take_until("key", Source::Local).await;
        server.restart();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    // At most one pair of outage lines a second, and one line per ten seconds of each of the other kinds.
    assert!(log.with("the store").len() <= 2 * seconds, "{:#?}", log.lines());
    assert!(log.lines().len() <= 2 * seconds + 8 * (seconds / 10 + 1), "{:#?}", log.lines());
}

#[tokio::test]
async fn a_server_that_is_absent_at_the_start_is_logged() {
    let log = Log::capture(Level::INFO);
    let _fixture = Fixture::at(&format!("redis://127.0.0.1:{}", Process::free_port())).await;
    log.wait_for("the store does not answer").await;
}

/// New rules migrate the stored state of every key; that is one line, with the name of the policy.
#[tokio::test]
async fn a_migration_is_logged_once_for_many_keys() {
    let log = Log::capture(Level::INFO);
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    for key in ["a", "b", "c"] {
        let _ = fixture.take(key).await;
    }
    fixture.store.install(policy(2_000), OnQuotaChange::Keep).unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(fixture.take(key).await.source, Source::Store);
    }
    let lines = log.with("migrated");
    assert!(lines.len() == 1 && lines[0].contains("events"), "{:#?}", log.lines());
}

/// A foreign value is a warning without the key and without the value.
#[tokio::test]
async fn a_foreign_value_is_logged_without_its_key() {
    let log = Log::capture(Level::INFO);
    let server = RedisServer::start();
    let fixture = Fixture::at(&server.url()).await;
    server.command(&["SET", "ratekeeper:1:/events:{canary-key}", "canary-value"]);
    for _ in 0..3 {
        assert_eq!(fixture.take("canary-key").await.source, Source::Local);
    }
    let lines = log.with("cannot be read");
    assert!(lines.len() == 1 && lines[0].contains("WARN"), "{:#?}", log.lines());
    assert!(lines[0].contains("bytes=12") && lines[0].contains("left alone"), "{}", lines[0]);
    assert!(!log.lines().concat().contains("canary"), "{:#?}", log.lines());
}

const TIMEOUT: Duration = Duration::from_secs(30);
