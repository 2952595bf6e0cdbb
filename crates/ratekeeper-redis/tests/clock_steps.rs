//! Clock steps: the server's clock, the only one that decides, is set forwards and backwards while it runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::time::{Duration, Instant};

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Quota, Rule, Source, Store, Take, Verb};
use ratekeeper_redis::{RedisConfig, RedisPolicy, RedisStore};
use ratekeeper_testkit::servers::{Binary, RedisServer};

/// 20 permits per second and a burst of 60: full after three seconds, so that steps back of 300 ms are waited out.
const RATE: u64 = 20;
const BURST: u64 = 60;
const TOLERANCE: Duration = Duration::from_millis(300);

struct Fixture {
    server: RedisServer,
    store: RedisStore,
    policy: RedisPolicy,
}

impl Fixture {
    /// A server with a settable clock, and an exhausted key.
    async fn spent(rule: Rule) -> Self {
        let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
        let config = RedisConfig::default().deadline(Duration::from_secs(5));
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("fixture", [rule]).unwrap(), OnQuotaChange::Keep).unwrap();
        let fixture = Self { server, store, policy };
        while fixture.take().await.is_allowed() {}
        fixture
    }

    async fn take(&self) -> Decision {
        let ask = Ask::new(&self.policy, "key");
        let decision = self.store.decide(&[ask], Verb::Take(Take::now())).await.unwrap();
        assert_eq!(decision.source, Source::Store, "{:?}", self.store.counts());
        decision
    }

    /// Takes until refused; returns the permits taken.
    async fn drain(&self) -> u64 {
        let mut taken = 0;
        while self.take().await.is_allowed() {
            taken += 1;
        }
        taken
    }

    /// The time for which every request is refused.
    async fn locked_out(&self) -> Duration {
        let start = Instant::now();
        while !self.take().await.is_allowed() {
            assert!(start.elapsed() < Duration::from_secs(20), "locked out");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        start.elapsed()
    }
}

fn bucket() -> Rule {
    Rule::token_bucket("r", Quota::per_second(RATE).burst(BURST))
}

/// Permits that a span frees, rounded up.
fn freed_in(span: Duration) -> u64 {
    (u64::try_from(span.as_micros()).unwrap() * RATE).div_ceil(1_000_000)
}

/// Time in which one permit is refilled.
const INTERVAL: Duration = Duration::from_millis(50);
const SLACK: Duration = Duration::from_millis(500);

/// A step forward looks like elapsed time: it frees the permits of that time, at most a burst.
#[tokio::test]
async fn a_step_forward_frees_the_permits_of_its_length_up_to_a_burst() {
    let fixture = Fixture::spent(bucket()).await;
    for step in [Duration::from_millis(700), Duration::from_secs(2), Duration::from_secs(3_600)] {
        fixture.drain().await;
        let start = Instant::now();
        fixture.server.clock().step_forward(step);
        let freed = fixture.drain().await;
        let passed = start.elapsed();
        let most = freed_in(step).min(BURST) + freed_in(passed) + 1;
        println!("{step:?} forward freed {freed}, at most {most}");
        assert!(freed <= most, "{freed} freed, {most} expected");
        assert!(freed >= freed_in(step).min(BURST) - 1, "{freed} freed");
    }
}

/// A small step back is waited out: nothing is freed, and no key is locked out for longer than the step.
#[tokio::test]
async fn a_small_step_back_frees_nothing_and_is_waited_out() {
    let fixture = Fixture::spent(bucket()).await;
    for step in [TOLERANCE / 10, TOLERANCE / 2, TOLERANCE - INTERVAL] {
        fixture.drain().await;
        let start = Instant::now();
        fixture.server.clock().step_back(step);
        let freed = fixture.drain().await;
        assert!(freed <= freed_in(start.elapsed()), "{freed} freed by a step back of {step:?}");
        let locked_out = fixture.locked_out().await;
        println!("{step:?} back locked out for {locked_out:?}");
        assert!(locked_out <= step + INTERVAL + SLACK, "{locked_out:?}");
    }
}

/// After a large step back the state follows the clock: nothing is freed, and no key waits for the old time.
#[tokio::test]
async fn a_large_step_back_frees_nothing_and_locks_no_key_out() {
    let fixture = Fixture::spent(bucket()).await;
    for step in [2 * TOLERANCE, Duration::from_secs(60), Duration::from_secs(86_400)] {
        fixture.drain().await;
        let start = Instant::now();
        fixture.server.clock().step_back(step);
        let freed = fixture.drain().await;
        assert!(freed <= freed_in(start.elapsed()), "{freed} freed by a step back of {step:?}");
        let locked_out = fixture.locked_out().await;
        println!("{step:?} back locked out for {locked_out:?}");
        assert!(locked_out <= TOLERANCE + INTERVAL + SLACK, "{locked_out:?}");
    }
}

/// A step back and forward to the same time frees at most what the step forward alone frees.
#[tokio::test]
async fn a_step_back_and_forth_frees_no_more_than_one_step_forward() {
    let fixture = Fixture::spent(bucket()).await;
    let step = Duration::from_secs(1);
    let start = Instant::now();
    fixture.server.clock().step_back(step);
    let mut freed = fixture.drain().await;
    fixture.server.clock().step_forward(step);
    freed += fixture.drain().await;
    let most = freed_in(step) + freed_in(start.elapsed()) + 1;
    assert!(freed <= most, "{freed} freed, {most} expected");
}

/// After a step back, the times in windows and logs are in the future. They expire nevertheless.
#[tokio::test]
async fn every_algorithm_recovers_from_a_step_of_a_day() {
    let quota = Quota::per_second(RATE);
    let rules = [
        Rule::token_bucket_stepwise("stepwise", quota),
        Rule::leaky_bucket("leaky bucket", quota),
        Rule::fixed_window("fixed window", quota),
        Rule::sliding_log("sliding log", quota),
        Rule::sliding_counter("sliding counter", quota),
    ];
    for rule in rules {
        let name = rule.name().to_owned();
        let fixture = Fixture::spent(rule).await;
        let start = Instant::now();
        fixture.server.clock().step_back(Duration::from_secs(86_400));
        let freed = fixture.drain().await;
        let passed = start.elapsed();
        // A window that ends during the drain frees its permits as usual.
        let ended = freed_in(Duration::from_secs(passed.as_secs() + 1));
        assert!(freed <= ended, "{name}: {freed} freed in {passed:?}");
        let locked_out = fixture.locked_out().await;
        println!("{name}: {freed} freed in {passed:?}, locked out for {locked_out:?}");
        assert!(locked_out <= Duration::from_secs(1) + TOLERANCE + SLACK, "{name}: {locked_out:?}");
    }
}
