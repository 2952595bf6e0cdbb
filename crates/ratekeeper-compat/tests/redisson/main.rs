//! Limiters shared with Redisson, on real servers: the behaviours that its test suite checks, its layout, and
//! improvements.
//!
//! Windows pass on a manual clock, times to live on a server whose clock the test sets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod cluster;
mod defects;
#[path = "../../examples/redisson.rs"]
mod example;
mod faults;
mod layout;
mod lifetimes;
mod refusals;
mod upstream;
mod waiting;

use std::time::{Duration, SystemTime};

use ratekeeper_compat::redisson::{Rate, RedissonClient, RedissonClock, RedissonConfig, RedissonLimiter};
use ratekeeper_core::ManualClock;
use ratekeeper_core::Span;
use ratekeeper_testkit::servers::{Binary, RedisServer, Reply};

/// A server, a client, and the clock that they use.
struct Ground {
    server: RedisServer,
    client: RedissonClient,
    /// `None` if the server's clock counts.
    clock: Option<ManualClock>,
}

impl Ground {
    /// On a manual clock. Times to live use the server's clock.
    async fn new() -> Self {
        let clock = ManualClock::default();
        clock.set(SystemTime::now().into());
        let server = RedisServer::start();
        let client = client(&server.url(), config().clock(RedissonClock::Manual(clock.clone()))).await;
        Self { server, client, clock: Some(clock) }
    }

    /// On the server's clock, which the test sets.
    async fn on_the_servers_clock() -> Self {
        let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
        let client = client(&server.url(), config()).await;
        Self { server, client, clock: None }
    }

    /// On the server's clock, in real time.
    async fn in_real_time() -> Self {
        let server = RedisServer::start();
        let client = client(&server.url(), config()).await;
        Self { server, client, clock: None }
    }

    /// Another client of the same limiters.
    async fn another(&self) -> RedissonClient {
        let config = config();
        let config = match &self.clock {
            Some(clock) => config.clock(RedissonClock::Manual(clock.clone())),
            None => config,
        };
        client(&self.server.url(), config).await
    }

    fn pass(&self, ms: u64) {
        match &self.clock {
            Some(clock) => clock.set(clock.now() + Span::from_micros(ms * 1_000)),
            None => self.server.clock().step_forward(Duration::from_millis(ms)),
        }
    }

    /// The time of the manual clock, in milliseconds.
    fn now_ms(&self) -> u64 {
        self.clock.as_ref().unwrap().now().as_micros() / 1_000
    }

    async fn limiter(&self, name: &str, rate: Rate) -> RedissonLimiter {
        let limiter = self.client.rate_limiter(name);
        assert!(limiter.try_set_rate(&rate).await.unwrap());
        limiter
    }

    #[track_caller]
    fn ask(&self, words: &[&str]) -> Reply {
        self.server.command(words).expect_ok()
    }

    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).items().iter().map(Reply::text).collect();
        keys.sort();
        keys
    }

    fn grants(&self, key: &str) -> Vec<Vec<u8>> {
        let found = self.ask(&["ZRANGE", key, "0", "-1"]);
        let bytes = found.items().iter().map(|item| match item {
            Reply::Bulk(bytes) => bytes.clone(),
            other => panic!("expected a grant, found {other:?}"),
        });
        bytes.collect()
    }

    /// Free permits as stored, and permits in all grants.
    fn books(&self, name: &str) -> (i64, i64) {
        let taken = self.grants(&format!("{{{name}}}:permits")).iter().map(|grant| permits_in(grant)).sum();
        (self.ask(&["GET", &format!("{{{name}}}:value")]).integer(), taken)
    }

    /// Adds a grant with this score, as another client may have made it.
    fn plant(&self, key: &str, score_ms: u64, grant: &[u8]) {
        let score = score_ms.to_string();
        let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), score.as_bytes(), grant];
        let _ = self.server.command(&words).expect_ok();
    }

    fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).integer()
    }
}

fn config() -> RedissonConfig {
    RedissonConfig::default().deadline(Duration::from_secs(5))
}

async fn client(url: &str, config: RedissonConfig) -> RedissonClient {
    RedissonClient::connect_with(url, config).await.unwrap()
}

async fn takes(limiter: &RedissonLimiter, permits: u64) -> bool {
    limiter.try_acquire_n(permits).await.unwrap().is_granted()
}

async fn free(limiter: &RedissonLimiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

fn overall(permits: u64, interval_ms: u64) -> Rate {
    Rate::overall(permits, Duration::from_millis(interval_ms)).unwrap()
}

fn per_client(permits: u64, interval_ms: u64) -> Rate {
    Rate::per_client(permits, Duration::from_millis(interval_ms)).unwrap()
}

/// A grant as Redisson writes it: length, random bytes, permits in native byte order.
fn grant(chance: &[u8], permits: u32) -> Vec<u8> {
    let length = u8::try_from(chance.len()).unwrap();
    [&[length], chance, &permits.to_ne_bytes()].concat()
}

fn permits_in(grant: &[u8]) -> i64 {
    // Grants of 8 and 20 bytes are of releases before 3.17.
    let is_known = [8, 20, usize::from(grant[0]) + 5].contains(&grant.len());
    assert!(is_known, "a grant, not {grant:?}");
    i64::from(u32::from_ne_bytes(*grant.last_chunk().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_runs() {
    let server = RedisServer::start();
    example::run(&server.url()).await.unwrap();
    let left = server.command(&["PTTL", "example:api"]).integer();
    assert!((1..=60_000).contains(&left), "it is forgotten a minute after the last use: {left}");
}
