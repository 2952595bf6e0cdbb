//! The gateways' bucket on real servers: stored state, and results that the originals do not return.
//!
//! `tests/interop` compares the bucket with the originals' scripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

#[path = "../examples/gateway.rs"]
mod example;

use std::time::Duration;

use ratekeeper_compat::gateway::{
    GatewayBucket, GatewayClock, GatewayConfig, GatewayError, GatewayLimits, Grain, IdRule, LimitsError,
};
use ratekeeper_core::ManualClock;
use ratekeeper_core::{Span, Timestamp};
use ratekeeper_testkit::servers::{Binary, Cluster, RedisServer};

/// A server and a manual clock.
struct Ground {
    server: RedisServer,
    clock: ManualClock,
}

impl Ground {
    fn new() -> Self {
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_700_000_000_250_000));
        Self { server: RedisServer::start(), clock }
    }

    async fn bucket(&self, rate: f64, capacity: f64, grain: Grain) -> GatewayBucket {
        let config = config().clock(GatewayClock::Manual(self.clock.clone())).grain(grain);
        let limits = GatewayLimits::new(rate, capacity).unwrap();
        GatewayBucket::connect_with(&self.server.url(), limits, config).await.unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.set(self.clock.now() + Span::from_duration(span));
    }

    fn text(&self, key: &str) -> String {
        self.server.command(&["GET", key]).expect_ok().text()
    }

    fn ttl(&self, key: &str) -> i64 {
        self.server.command(&["TTL", key]).integer()
    }
}

fn config() -> GatewayConfig {
    GatewayConfig::default().deadline(Duration::from_secs(5))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_two_strings_of_decimal_text() {
    let ground = Ground::new();
    let bucket = ground.bucket(10.0, 20.0, Grain::Seconds).await.id_rule(IdRule::Spring { route: "search".to_owned() });
    let answer = bucket.check("user-42").await.unwrap();
    assert_eq!((answer.allowed, answer.tokens_left, answer.retry_after), (true, 19.0, Duration::ZERO));
    assert_eq!(ground.text("request_rate_limiter.{search.user-42}.tokens"), "19");
    assert_eq!(ground.text("request_rate_limiter.{search.user-42}.timestamp"), "1700000000");
    assert!((3..=4).contains(&ground.ttl("request_rate_limiter.{search.user-42}.tokens")));

    let other = bucket.clone().prefix("edge").id_rule(IdRule::ShenYu { rule: "7".to_owned() });
    assert!(other.take("10.0.0.7", 2.5).await.unwrap().allowed);
    assert_eq!(ground.text("edge.{7-10.0.0.7}.tokens"), "17.5");
    assert!(bucket.reset("user-42").await.unwrap() && !bucket.reset("user-42").await.unwrap());
    assert_eq!(ground.server.command(&["DBSIZE"]).integer(), 2);
}

/// Waiting exactly `retry_after` passes; a microsecond less does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_is_exact() {
    for (grain, expected) in [
        // Five tokens are missing at two per second: three ticks, the first of them in 750 ms.
        (Grain::Seconds, Duration::from_millis(2_750)),
        (Grain::Fine, Duration::from_millis(2_500)),
    ] {
        let ground = Ground::new();
        let bucket = ground.bucket(2.0, 10.0, grain).await;
        assert!(bucket.take("key", 8.0).await.unwrap().allowed);
        let refused = bucket.take("key", 7.0).await.unwrap();
        assert_eq!((refused.allowed, refused.tokens_left, refused.retry_after), (false, 2.0, expected));
        ground.pass(expected - Duration::from_micros(1));
        let early = bucket.take("key", 7.0).await.unwrap();
        assert_eq!((early.allowed, early.retry_after), (false, Duration::from_micros(1)), "{grain:?}");
        ground.pass(Duration::from_micros(1));
        assert!(bucket.take("key", 7.0).await.unwrap().allowed, "{grain:?}");
    }
}

/// For any rate, waiting `retry_after` suffices, and it is too long by at most one step of the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_retry_after_suffices_for_odd_rates() {
    for (grain, step) in [(Grain::Seconds, 1_000_000), (Grain::Fine, 10)] {
        for (rate, capacity) in [(0.3, 0.9), (7.0, 3.0), (1.0 / 3.0, 5.0), (1e-4, 1.0), (1234.5, 1234.5)] {
            let ground = Ground::new();
            let bucket = ground.bucket(rate, capacity, grain).await;
            assert!(bucket.take("key", capacity).await.unwrap().allowed);
            let answer = bucket.take("key", capacity / 3.0).await.unwrap();
            assert!(!answer.allowed);
            let exact = Duration::from_secs_f64(capacity / 3.0 / rate);
            assert!(answer.retry_after <= exact + Duration::from_micros(step), "{grain:?} {rate}: {answer:?}");
            ground.pass(answer.retry_after);
            assert!(bucket.take("key", capacity / 3.0).await.unwrap().allowed, "{grain:?} {rate} {capacity}");
        }
    }
}

/// The gateways' clock ticks in seconds and allows two bursts around a tick; a fine clock does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fine_clock_has_no_edge_to_burst_over() {
    for (grain, passes) in [(Grain::Seconds, 10), (Grain::Fine, 0)] {
        let ground = Ground::new();
        let bucket = ground.bucket(10.0, 10.0, grain).await;
        ground.pass(Duration::from_millis(749));
        assert!(bucket.take("key", 10.0).await.unwrap().allowed);
        ground.pass(Duration::from_millis(1));
        let mut passed = 0;
        while bucket.check("key").await.unwrap().allowed {
            passed += 1;
        }
        assert_eq!(passed, passes, "{grain:?}");
    }
}

/// Twice the time to fill, rounded down, is zero here. Spring then keeps no state and limits nothing; this bucket does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_fills_in_less_than_half_a_second_is_kept() {
    let ground = Ground::new();
    let bucket = ground.bucket(10.0, 4.0, Grain::Seconds).await;
    for turn in 0..6 {
        assert_eq!(bucket.check("key").await.unwrap().allowed, turn < 4);
    }
    assert_eq!(ground.ttl("request_rate_limiter.{key}.tokens"), 1);
}

/// The largest capacity of Spring's own tests. Tokens are counted one by one up to it, and stored and returned numbers
/// stay within the range of Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_capacity_is_counted_exactly() {
    const MOST: f64 = 9_007_199_254_740_991.0;
    let ground = Ground::new();
    let bucket = ground.bucket(1.0, MOST, Grain::Seconds).await.prefix("most");
    let answer = bucket.check("u").await.unwrap();
    assert_eq!((answer.allowed, answer.tokens_left), (true, MOST - 1.0));
    assert_eq!(bucket.check("u").await.unwrap().tokens_left, MOST - 2.0);
    assert_eq!(ground.text("most.{u}.tokens"), "9007199254740989");
    assert_eq!(bucket.take("u", MOST - 2.0).await.unwrap().tokens_left, 0.0);
    let refused = bucket.take("u", 5.0).await.unwrap();
    assert_eq!((refused.allowed, refused.retry_after), (false, Duration::from_micros(4_750_000)));
    let century = Duration::from_secs(100 * 365 * 86_400);
    let refused = bucket.take("u", MOST).await.unwrap();
    assert_eq!((refused.allowed, refused.retry_after), (false, century));
    let ttl = Duration::from_secs(ground.ttl("most.{u}.tokens").unsigned_abs());
    assert!(ttl > century && ttl <= century * 2, "{ttl:?}");
    ground.pass(Duration::from_secs(5));
    assert!(bucket.take("u", 5.0).await.unwrap().allowed);

    let slow = ground.bucket(f64::MIN_POSITIVE, 2.0, Grain::Fine).await.prefix("slow");
    assert!(slow.take("u", 2.0).await.unwrap().allowed);
    assert_eq!(slow.check("u").await.unwrap().retry_after, century);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_pass_is_an_error_before_anything_is_sent() {
    let ground = Ground::new();
    let bucket = ground.bucket(1.0, 5.0, Grain::Seconds).await;
    let error = bucket.take("key", 6.0).await.unwrap_err();
    assert!(matches!(error, GatewayError::Limits(LimitsError::AboveCapacity { .. })), "{error}");
    assert!(matches!(bucket.take("key", 0.0).await, Err(GatewayError::Limits(LimitsError::OutOfRange { .. }))));
    let small = bucket.clone().limits(GatewayLimits::new(0.1, 0.5).unwrap());
    assert!(matches!(small.check("key").await, Err(GatewayError::Limits(LimitsError::AboveCapacity { .. }))));
    assert_eq!(ground.server.command(&["DBSIZE"]).integer(), 0);
}

/// Steps of the server's clock forwards and backwards: no key is locked out, and no token is granted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_clock_counts_and_may_be_set() {
    let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
    let limits = GatewayLimits::new(1.0, 3.0).unwrap();
    let bucket = GatewayBucket::connect_with(&server.url(), limits, config()).await.unwrap();
    assert!(bucket.take("key", 3.0).await.unwrap().allowed);
    server.clock().step_forward(Duration::from_secs(2));
    assert!(bucket.take("key", 2.0).await.unwrap().allowed);
    server.clock().step_back(Duration::from_secs(3_600));
    assert!(!bucket.take("key", 2.0).await.unwrap().allowed);
    server.clock().step_forward(Duration::from_secs(2));
    assert!(bucket.take("key", 2.0).await.unwrap().allowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_live_in_one_slot_of_a_cluster() {
    let cluster = Cluster::with().without_replicas().start();
    let limits = GatewayLimits::new(1.0, 2.0).unwrap();
    let bucket = GatewayBucket::connect_with(&cluster.url(), limits, config()).await.unwrap();
    for key in ["a", "b", "10.0.0.7", "x{y}z", "é"] {
        assert!(bucket.check(key).await.unwrap().allowed);
    }
    assert!(matches!(bucket.check("").await, Err(GatewayError::ApartInCluster { .. })));
    assert!(matches!(bucket.check("}x").await, Err(GatewayError::ApartInCluster { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_runs() {
    let server = RedisServer::start();
    example::run(&server.url()).await.unwrap();
    let key = "request_rate_limiter.{search.user-42}.tokens";
    assert_eq!(server.command(&["EXISTS", key]).integer(), 1);
}
