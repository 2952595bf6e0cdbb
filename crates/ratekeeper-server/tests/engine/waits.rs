//! Tests of `max_wait` with a shaped rule, in memory and on Redis: it bounds the whole wait. With a `max_wait` of 0 a
//! take is given the delay, however long.

use std::sync::Arc;

use ratekeeper_core::{Span, Take, Timestamp, Verb, Verdict};
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_rules::{Format, read_str};
use ratekeeper_server::{
    engine::Engine,
    request::{Request, Subject},
    telemetry::Telemetry,
    wiring::AnyStore,
};
use ratekeeper_testkit::servers::RedisServer;

const START: Timestamp = Timestamp::from_micros(1_900_000_000_000_000);

/// A shaped rule of one request per 100 ms with room for ten: alone, and together with a token bucket.
const RULES: &str = r#"
domain: api
policies:
  - { name: one, match: { key: "*" }, rules: [{ name: even, algorithm: leaky_bucket, limit: 10, per: 1s, capacity: 10, shaped: true }] }
  - name: two
    match: { user: "*" }
    rules:
      - { name: even, algorithm: leaky_bucket, limit: 10, per: 1s, capacity: 10, shaped: true }
      - { name: burst, algorithm: token_bucket, limit: 8, per: 8s, burst: 8 }
"#;

async fn ask(engine: &Engine, subject: Subject<'_>, wait_ms: u64) -> Verdict {
    let verb = Verb::Take(Take::up_to(Span::from_millis(wait_ms)));
    engine.decide(&Request { domain: "api", subjects: &[subject], verb }).await.unwrap().verdict()
}

async fn is_bounded(engine: &Engine) {
    let files = read_str("rules.yaml", RULES, Format::Yaml).map(|file| vec![file]);
    engine.load(files).unwrap();
    for subject in [Subject::key("u"), Subject::descriptor(&[("user", "u")])] {
        // With a `max_wait` of 0 a take is given the delay, however long.
        for delay in 0..4 {
            assert_eq!(ask(engine, subject, 0).await, Verdict::Allow { wait: Span::from_millis(100 * delay) });
        }
        assert_eq!(ask(engine, subject, 400).await, Verdict::Allow { wait: Span::from_millis(400) });
        // The next wait would be 500 ms: more than 400 ms, although the token bucket has room.
        let retry_after = Span::from_millis(500);
        assert_eq!(ask(engine, subject, 400).await, Verdict::Deny { retry_after });
        assert_eq!(ask(engine, subject, 499).await, Verdict::Deny { retry_after }, "a refusal charges nothing");
        assert_eq!(ask(engine, subject, 500).await, Verdict::Allow { wait: retry_after });
        assert_eq!(ask(engine, subject, 0).await, Verdict::Allow { wait: Span::from_millis(600) });
    }
}

#[tokio::test]
async fn a_deadline_bounds_the_whole_wait_in_memory() {
    let store = AnyStore::Manual(MemoryStore::with_clock(ManualClock::at(START)));
    is_bounded(&Engine::new(store, Arc::new(Telemetry::default()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_bounds_the_whole_wait_on_redis() {
    let redis = RedisServer::start();
    let clock = ManualClock::default();
    clock.set(START);
    let config = RedisConfig::default().manual_clock(clock).deadline(std::time::Duration::from_secs(20));
    let store = AnyStore::Redis(RedisStore::connect_with(&redis.url(), config).await.unwrap());
    is_bounded(&Engine::new(store, Arc::new(Telemetry::default()))).await;
}
