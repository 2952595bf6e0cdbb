//! `max_wait` under a shaped rule bounds the whole wait, in memory and on Redis; a plain try is given the delay.

use std::sync::Arc;

use tollgate_core::{Micros, Verdict};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_redis::{PretendClock, RedisConfig, RedisStore};
use tollgate_rules::{Format, read_str};
use tollgate_server::{
    engine::{Asked, Engine, Question, Subject},
    telemetry::Telemetry,
    wiring::Storage,
};
use tollgate_testkit::servers::RedisServer;

const START: Micros = Micros(1_900_000_000_000_000);

/// One every 100 ms, nine behind the first; alone, and together with a bucket.
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
    let verb = Asked::Take { max_wait: Micros::from_millis(wait_ms) };
    engine.ask(&Question { domain: "api", subjects: &[subject], verb }).await.unwrap().verdict()
}

async fn is_bounded(engine: &Engine) {
    let files = read_str("rules.yaml", RULES, Format::Yaml).map(|file| vec![file]);
    engine.load(files).unwrap();
    for subject in [Subject::key("u"), Subject::descriptor(&[("user", "u")])] {
        // A try is given the delay, whatever it is.
        for delay in 0..4 {
            assert_eq!(ask(engine, subject, 0).await, Verdict::Allow { wait: Micros::from_millis(100 * delay) });
        }
        assert_eq!(ask(engine, subject, 400).await, Verdict::Allow { wait: Micros::from_millis(400) });
        // The next would go after 500 ms: more than 400, though the bucket has room at once.
        let retry_after = Micros::from_millis(500);
        assert_eq!(ask(engine, subject, 400).await, Verdict::Deny { retry_after });
        assert_eq!(ask(engine, subject, 499).await, Verdict::Deny { retry_after }, "a refusal charges nothing");
        assert_eq!(ask(engine, subject, 500).await, Verdict::Allow { wait: retry_after });
        assert_eq!(ask(engine, subject, 0).await, Verdict::Allow { wait: Micros::from_millis(600) });
    }
}

#[tokio::test]
async fn a_deadline_bounds_the_whole_wait_in_memory() {
    let store = Storage::ByHand(MemoryStore::with_clock(ManualClock::at(START)));
    is_bounded(&Engine::new(store, Arc::new(Telemetry::default()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_bounds_the_whole_wait_on_redis() {
    let redis = RedisServer::start();
    let clock = PretendClock::default();
    clock.set(START);
    let config = RedisConfig::default().pretend_time(clock).deadline(std::time::Duration::from_secs(20));
    let store = Storage::Redis(RedisStore::connect_with(&redis.url(), config).await.unwrap());
    is_bounded(&Engine::new(store, Arc::new(Telemetry::default()))).await;
}
