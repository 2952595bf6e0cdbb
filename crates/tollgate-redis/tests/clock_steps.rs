//! A server whose clock is set while it runs, forwards and backwards. Only the server's time counts, so this is where
//! clock steps come from.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::time::{Duration, Instant};

use tollgate_core::{Ask, Carry, Decision, Policy, Quota, Rule, Source, Store, Take, Verb};
use tollgate_redis::{RedisConfig, RedisPolicy, RedisStore};
use tollgate_testkit::servers::{Binary, RedisServer};

/// Twenty permits a second, sixty at once: refilled in three seconds, so that steps back of 300 ms are waited out.
const RATE: u64 = 20;
const BURST: u64 = 60;
const TOLERANCE: Duration = Duration::from_millis(300);

struct Desk {
    server: RedisServer,
    store: RedisStore,
    policy: RedisPolicy,
}

impl Desk {
    /// A server with a clock of ours, and a key that has used up everything.
    async fn spent(rule: Rule) -> Self {
        let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
        let config = RedisConfig::default().deadline(Duration::from_secs(5));
        let store = RedisStore::connect_with(&server.url(), config).await.unwrap();
        let policy = store.install(Policy::new("desk", [rule]).unwrap(), Carry::Keep).unwrap();
        let desk = Self { server, store, policy };
        while desk.take().await.is_allowed() {}
        desk
    }

    async fn take(&self) -> Decision {
        let ask = Ask::new(&self.policy, "key");
        let told = self.store.decide(&[ask], Verb::Take(Take::now(1))).await.unwrap();
        assert_eq!(told.source, Source::Store, "{:?}", self.store.counts());
        told
    }

    /// Takes until it is refused: how many permits there were.
    async fn drain(&self) -> u64 {
        let mut taken = 0;
        while self.take().await.is_allowed() {
            taken += 1;
        }
        taken
    }

    /// How long nothing passes.
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

/// One permit's time.
const INTERVAL: Duration = Duration::from_millis(50);
const SLACK: Duration = Duration::from_millis(500);

/// The key cannot know that the time has not passed; but it frees what that time is worth, and a burst at most.
#[tokio::test]
async fn a_step_forward_frees_what_the_time_is_worth_and_no_more_than_a_burst() {
    let desk = Desk::spent(bucket()).await;
    for step in [Duration::from_millis(700), Duration::from_secs(2), Duration::from_secs(3_600)] {
        desk.drain().await;
        let start = Instant::now();
        desk.server.clock().step_forward(step);
        let freed = desk.drain().await;
        let passed = start.elapsed();
        let most = freed_in(step).min(BURST) + freed_in(passed) + 1;
        println!("{step:?} forward freed {freed}, at most {most}");
        assert!(freed <= most, "{freed} freed, {most} expected");
        assert!(freed >= freed_in(step).min(BURST) - 1, "{freed} freed");
    }
}

/// A small step back is waited out: nothing is freed, and nobody is locked out for longer than the step.
#[tokio::test]
async fn a_small_step_back_frees_nothing_and_is_waited_out() {
    let desk = Desk::spent(bucket()).await;
    for step in [TOLERANCE / 10, TOLERANCE / 2, TOLERANCE - INTERVAL] {
        desk.drain().await;
        let start = Instant::now();
        desk.server.clock().step_back(step);
        let freed = desk.drain().await;
        assert!(freed <= freed_in(start.elapsed()), "{freed} freed by a step back of {step:?}");
        let locked_out = desk.locked_out().await;
        println!("{step:?} back locked out for {locked_out:?}");
        assert!(locked_out <= step + INTERVAL + SLACK, "{locked_out:?}");
    }
}

/// A large one moves the key along: nothing is freed, and nobody waits for the old time to come round.
#[tokio::test]
async fn a_large_step_back_frees_nothing_and_locks_nobody_out() {
    let desk = Desk::spent(bucket()).await;
    for step in [2 * TOLERANCE, Duration::from_secs(60), Duration::from_secs(86_400)] {
        desk.drain().await;
        let start = Instant::now();
        desk.server.clock().step_back(step);
        let freed = desk.drain().await;
        assert!(freed <= freed_in(start.elapsed()), "{freed} freed by a step back of {step:?}");
        let locked_out = desk.locked_out().await;
        println!("{step:?} back locked out for {locked_out:?}");
        assert!(locked_out <= TOLERANCE + INTERVAL + SLACK, "{locked_out:?}");
    }
}

/// Back, and forward again to where it was: at most what the step forward alone would have freed.
#[tokio::test]
async fn a_step_back_and_forth_is_worth_one_step_forward() {
    let desk = Desk::spent(bucket()).await;
    let step = Duration::from_secs(1);
    let start = Instant::now();
    desk.server.clock().step_back(step);
    let mut freed = desk.drain().await;
    desk.server.clock().step_forward(step);
    freed += desk.drain().await;
    let most = freed_in(step) + freed_in(start.elapsed()) + 1;
    assert!(freed <= most, "{freed} freed, {most} expected");
}

/// Windows and logs remember moments; those lie ahead after a step back, and still end.
#[tokio::test]
async fn every_algorithm_outlives_a_step_of_a_day() {
    let quota = Quota::per_second(RATE);
    let rules = [
        Rule::token_bucket("stepwise", quota).stepwise(),
        Rule::leaky_bucket("leaky bucket", quota),
        Rule::fixed_window("fixed window", quota),
        Rule::sliding_log("sliding log", quota),
        Rule::sliding_counter("sliding counter", quota),
    ];
    for rule in rules {
        let name = rule.name().to_owned();
        let desk = Desk::spent(rule).await;
        let start = Instant::now();
        desk.server.clock().step_back(Duration::from_secs(86_400));
        let freed = desk.drain().await;
        let passed = start.elapsed();
        // A window that ends meanwhile ends as it would have.
        let ended = freed_in(Duration::from_secs(passed.as_secs() + 1));
        assert!(freed <= ended, "{name}: {freed} freed in {passed:?}");
        let locked_out = desk.locked_out().await;
        println!("{name}: {freed} freed in {passed:?}, locked out for {locked_out:?}");
        assert!(locked_out <= Duration::from_secs(1) + TOLERANCE + SLACK, "{name}: {locked_out:?}");
    }
}
