use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use tollgate_testkit::servers::{Process, RedisServer, wait_until};
use tracing::instrument::WithSubscriber;

use super::*;
use crate::{
    shutdown::{self, Stopper},
    telemetry::Telemetry,
    wiring::{Storage, StorageSettings},
};

const RULES: &str = "domain: api\npolicies:\n  - name: p\n    match: { key: \"*\" }\n    rules:\n      - { name: n, algorithm: token_bucket, limit: 3, per: 1h, on_store_failure: closed }\n      - { name: m, algorithm: token_bucket, limit: 3, per: 1h }\n";

fn health(standing: Standing, opened: u64) -> StoreHealth {
    StoreHealth { standing, counts: vec![("breaker_opened", opened)], ..StoreHealth::default() }
}

fn away() -> Standing {
    Standing::Away("gone".to_owned())
}

struct Told {
    outages: Outages,
    now: Instant,
}

impl Told {
    fn new() -> Self {
        Self { outages: Outages::default(), now: Instant::now() }
    }

    fn after(&mut self, millis: u64, standing: Standing, opened: u64) -> Option<News> {
        self.now += Duration::from_millis(millis);
        self.outages.on(&health(standing, opened), self.now)
    }
}

#[test]
fn each_turn_is_told_once() {
    let mut told = Told::new();
    assert_eq!(told.after(0, Standing::Well, 0), None);
    assert_eq!(told.after(100, away(), 0), Some(News::Away { cause: "gone".to_owned() }));
    assert_eq!(told.after(100, away(), 0), None);
    assert_eq!(told.after(3_000, Standing::Well, 0), None, "not yet sure");
    assert_eq!(told.after(1_000, Standing::Well, 0), Some(News::Back { after: Duration::from_millis(3_100) }));
    assert_eq!(told.after(100, Standing::Well, 0), None);
}

#[test]
fn a_store_at_the_edge_of_its_strength_is_one_outage() {
    let mut told = Told::new();
    assert!(told.after(0, away(), 1).is_some());
    for round in 2..50 {
        assert_eq!(told.after(500, Standing::Well, round), None);
        assert_eq!(told.after(300, away(), round), None);
    }
    assert_eq!(told.after(100, Standing::Well, 49), None);
    assert!(matches!(told.after(1_000, Standing::Well, 49), Some(News::Back { .. })));
}

#[test]
fn a_breaker_that_opened_and_closed_unseen_is_told() {
    let mut told = Told::new();
    assert_eq!(told.after(0, Standing::Well, 0), None);
    assert_eq!(told.after(100, Standing::Well, 1), Some(News::Away { cause: A_MOMENT.to_owned() }));
    assert_eq!(told.after(100, Standing::Well, 1), None);
    assert!(matches!(told.after(1_000, Standing::Well, 1), Some(News::Back { .. })));
}

#[test]
fn a_part_that_becomes_the_whole_is_news() {
    let mut told = Told::new();
    let partly = || Standing::Partly("1 of 3".to_owned());
    assert_eq!(told.after(0, partly(), 0), Some(News::Partly { cause: "1 of 3".to_owned() }));
    assert_eq!(told.after(100, partly(), 0), None);
    assert!(matches!(told.after(100, away(), 0), Some(News::Away { .. })));
    assert_eq!(told.after(100, partly(), 0), None);
}

/// What was written to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

fn lines_to(log: &Log) -> impl tracing::Subscriber + Send + Sync + use<> {
    let writer = log.clone();
    tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish()
}

async fn watched(url: &str) -> (Log, Stopper) {
    let store = Storage::open(url, &StorageSettings::default()).await.unwrap();
    let engine = Engine::new(store, Arc::new(Telemetry::default()));
    engine
        .load(tollgate_rules::read_str("rules.yaml", RULES, tollgate_rules::Format::Yaml).map(|file| vec![file]))
        .unwrap();
    let (log, (stopper, shutdown)) = (Log::default(), shutdown::channel());
    tokio::spawn(watch(engine, shutdown).with_subscriber(lines_to(&log)));
    (log, stopper)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_goes_and_comes_is_in_the_log_with_no_secret() {
    let server = RedisServer::with().password("canary-of-redis").start();
    let (log, _stopper) = watched(&server.url()).await;
    for round in 0..2 {
        server.kill();
        wait_until("the loss", PATIENCE, || log.lines().len() == 2 * round + 1);
        server.restart();
        wait_until("the return", PATIENCE, || log.lines().len() == 2 * round + 2);
    }
    let lines = log.lines();
    let lost = &lines[0];
    assert!(lost.contains("WARN") && lost.contains("the store does not answer"), "{lost}");
    assert!(lost.contains("no connection") && lost.contains(&server.address()), "{lost}");
    assert!(lost.contains("1 by this process's share") && lost.contains("1 by turning everybody away"));
    assert!(lines[1].contains("INFO") && lines[1].contains("the store answers again after"), "{}", lines[1]);
    assert!(!lines.concat().contains("canary"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_not_there_at_the_start_is_in_the_log() {
    let (log, _stopper) = watched(&format!("redis://127.0.0.1:{}", Process::free_port())).await;
    wait_until("a line", PATIENCE, || !log.lines().is_empty());
    assert!(log.lines()[0].contains("the store does not answer"), "{:?}", log.lines());
}

/// Five hundred refunds in an outage were five hundred warnings.
#[test]
fn a_call_that_finds_no_store_is_no_line_of_its_own() {
    let log = Log::default();
    tracing::subscriber::with_default(lines_to(&log), || {
        let waited = tollgate_core::Micros::SECOND;
        let error = tollgate_core::StoreError::TimedOut { address: "127.0.0.1:6379".to_owned(), waited };
        let problem = crate::http::Problem::from(crate::engine::AskError::from(error));
        assert_eq!(problem.status(), 503);
        tracing::info!("something else");
    });
    assert!(matches!(log.lines().as_slice(), [line] if line.contains("something else")), "{:?}", log.lines());
}

const PATIENCE: Duration = Duration::from_secs(20);
