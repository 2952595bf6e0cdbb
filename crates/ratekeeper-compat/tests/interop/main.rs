//! Comparison with the originals on one Redis: Redisson in Java, and the scripts of the gateways.
//!
//! `scripts/interop` builds and fetches the originals and runs these tests; without it every test fails with that
//! reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod books;
mod gateway;
mod hammer;
mod lifetimes;
mod steps;

use std::time::Duration;

use ratekeeper_compat::redisson::{ClientId, Rate, RateType, RedissonClient, RedissonConfig, RedissonLimiter};
use ratekeeper_testkit::{
    interop::{Redisson, Release},
    servers::{RedisServer, Reply},
};

use self::books::Books;

const BOTH: [RateType; 2] = [RateType::Overall, RateType::PerClient];

/// One server with a Java client and a Rust client. Both use one client id, so that they share permits in either mode.
struct Pair {
    server: RedisServer,
    java: Redisson,
    rust: RedissonClient,
}

impl Pair {
    async fn of(release: Release) -> Self {
        let server = RedisServer::start();
        let java = Redisson::start(release, &server.url());
        let config = RedissonConfig::default()
            .deadline(Duration::from_secs(10))
            .client_id(ClientId::given(java.client_id().to_owned()));
        let rust = RedissonClient::connect_with(&server.url(), config).await.unwrap();
        Self { server, java, rust }
    }

    /// Whether this release of Redisson has such a method.
    fn java_can(&mut self, method: &str) -> bool {
        self.java.tell(&format!("can {method}")) == "true"
    }

    #[track_caller]
    fn ask(&self, words: &[&str]) -> Reply {
        self.server.command(words).expect_ok()
    }

    /// The value and the grants, read in one step.
    fn books(&self, name: &str, mode: RateType) -> Books {
        Books::read(&self.server, name, self.owner(mode).as_deref())
    }

    /// Names of a limiter's value and grants.
    fn state_keys(&self, name: &str, mode: RateType) -> [String; 2] {
        books::keys(name, self.owner(mode).as_deref())
    }

    fn owner(&self, mode: RateType) -> Option<String> {
        (mode == RateType::PerClient).then(|| self.java.client_id().to_owned())
    }
}

fn rate(mode: RateType, permits: u64, interval_ms: u64) -> Rate {
    Rate::new(mode, permits, Duration::from_millis(interval_ms)).unwrap()
}

/// The name of the mode in Java.
fn in_java(mode: RateType) -> &'static str {
    match mode {
        RateType::Overall => "OVERALL",
        RateType::PerClient => "PER_CLIENT",
    }
}

async fn takes(limiter: &RedissonLimiter, permits: u64) -> bool {
    limiter.try_acquire_n(permits).await.unwrap().is_granted()
}

async fn free(limiter: &RedissonLimiter) -> u64 {
    limiter.available_permits().await.unwrap()
}
