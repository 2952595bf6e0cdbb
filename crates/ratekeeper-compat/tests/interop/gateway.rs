//! The gateways' scripts, taken from their jars, and the Rust bucket: in turns on the same keys at random times.
//!
//! Decisions, stored bytes and times to live are the same, whichever side wrote last.

use std::time::Duration;

use ratekeeper_compat::gateway::{GatewayAnswer, GatewayBucket, GatewayClock, GatewayConfig, GatewayLimits, IdRule};
use ratekeeper_core::ManualClock;
use ratekeeper_core::{Span, Timestamp};
use ratekeeper_testkit::{
    interop::script_in,
    servers::{Binary, RedisServer},
};

const SCRIPT: &str = "META-INF/scripts/request_rate_limiter.lua";

/// Two buckets with the same requests: in one the original decides alone, in the other both take turns.
struct Story {
    server: RedisServer,
    original: String,
    clock: ManualClock,
    bucket: GatewayBucket,
    rate: f64,
    capacity: f64,
}

impl Story {
    async fn of(original: String, rate: f64, capacity: f64) -> Self {
        let server = RedisServer::start();
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_700_000_000_000_000));
        let config =
            GatewayConfig::default().deadline(Duration::from_secs(10)).clock(GatewayClock::Manual(clock.clone()));
        let limits = GatewayLimits::new(rate, capacity).unwrap();
        let bucket = GatewayBucket::connect_with(&server.url(), limits, config).await.unwrap();
        Self { server, original, clock, bucket, rate, capacity }
    }

    /// The original's decision, and the whole tokens left.
    fn theirs(&self, id: &str, requested: f64) -> (bool, i64) {
        let [tokens, timestamp] = names(id);
        let now = (self.clock.now().as_micros() / 1_000_000).to_string();
        let [rate, capacity, requested] = [self.rate, self.capacity, requested].map(|number| number.to_string());
        let words = ["EVAL", &self.original, "2", &tokens, &timestamp, &rate, &capacity, &now, &requested];
        let answer = self.server.command(&words).expect_ok();
        (answer.items()[0].integer() == 1, answer.items()[1].integer())
    }

    async fn ours(&self, id: &str, requested: f64) -> GatewayAnswer {
        self.bucket.take(id, requested).await.unwrap()
    }

    /// Tokens, timestamp, and their times to live.
    fn stored(&self, id: &str) -> [String; 4] {
        let [tokens, timestamp] = names(id);
        let ask = |command: &str, key: &str| self.server.command(&[command, key]).expect_ok();
        let expiry = |key: &str| {
            // Rounded to seconds, because the server's clock advances between the two reads.
            let left = ask("PTTL", key).integer();
            (left + 500).div_euclid(1_000).to_string()
        };
        [ask("GET", &tokens).text(), ask("GET", &timestamp).text(), expiry(&tokens), expiry(&timestamp)]
    }
}

fn names(id: &str) -> [String; 2] {
    ["tokens", "timestamp"].map(|kind| format!("request_rate_limiter.{{{id}}}.{kind}"))
}

/// A small generator, so that a failure can be reproduced.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Rates and capacities, whole and fractional. Each takes at least half a second to fill; below that the originals
/// store nothing.
const LIMITS: [(f64, f64); 6] = [(10.0, 20.0), (1.0, 1.0), (3.0, 100.0), (0.5, 7.5), (2.5, 10.0), (100.0, 50.0)];

async fn in_turns(jar: &str) {
    let original = script_in(jar, SCRIPT);
    for (at, (rate, capacity)) in LIMITS.into_iter().enumerate() {
        let story = Story::of(original.clone(), rate, capacity).await;
        let mut chance = Chance(at as u64 + 1);
        for step in 0..400 {
            // Mostly within a second; sometimes long enough to fill up, and sometimes back.
            let ms = match chance.below(10) {
                0 => chance.below(30_000),
                1 => 0,
                _ => chance.below(900),
            };
            let now = story.clock.now();
            let back = chance.below(50) == 0;
            let span = Span::from_millis(ms);
            story.clock.set(if back { now - span } else { now + span });
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let requested = match chance.below(4) {
                0 => (1 + chance.below(8)) as f64 * capacity / 8.0,
                _ => capacity.min(1.0),
            };
            let (allowed, left) = story.theirs("alone", requested);
            let context =
                format!("{jar} {rate}/{capacity}, step {step}: {requested} at {}", story.clock.now().as_micros());
            if chance.below(2) == 0 {
                assert_eq!(story.theirs("shared", requested), (allowed, left), "{context}, by the original");
            } else {
                let ours = story.ours("shared", requested).await;
                #[allow(clippy::cast_possible_truncation, reason = "as the server does with what a script returns")]
                let whole = ours.tokens_left as i64;
                assert_eq!((ours.allowed, whole), (allowed, left), "{context}, by ours");
            }
            assert_eq!(story.stored("shared"), story.stored("alone"), "{context}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_cloud_gateway_and_ours_decide_and_store_the_same() {
    in_turns("spring").await;
}

/// Soul is the former name of ShenYu, under which its limiter was last published as a separate jar.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soul_and_ours_decide_and_store_the_same() {
    in_turns("soul").await;
}

/// Spring omits the time and uses the server's clock, as the Rust bucket does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_and_ours_go_by_the_servers_clock() {
    let original = script_in("spring", SCRIPT);
    let server = RedisServer::with().binary(Binary::Valkey).fake_clock().start();
    let limits = GatewayLimits::new(2.0, 6.0).unwrap();
    let config = GatewayConfig::default().deadline(Duration::from_secs(10));
    let bucket = GatewayBucket::connect_with(&server.url(), limits, config).await.unwrap();
    let bucket = bucket.id_rule(IdRule::Spring { route: "search".to_owned() });
    let [tokens, timestamp] = names("search.user");
    let theirs = || {
        let words = ["EVAL", &original, "2", &tokens, &timestamp, "2", "6", "", "1"];
        server.command(&words).expect_ok().items()[0].integer() == 1
    };
    for _ in 0..3 {
        let mut passed = 0;
        // The clock may tick in between, but neither side gets tokens that the other has taken.
        while passed < 100 && (theirs() && bucket.check("user").await.unwrap().allowed) {
            passed += 1;
        }
        assert!(passed < 10, "the two count together");
        let refused = bucket.take("user", 6.0).await.unwrap();
        assert!(!refused.allowed && refused.retry_after <= Duration::from_secs(3), "{refused:?}");
        server.clock().step_forward(Duration::from_secs(10));
    }
}

/// If a bucket fills in less than half a second, the original stores nothing and limits nothing. The Rust bucket does,
/// and the original then reads its state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_spring_forgets_ours_remembers() {
    let story = Story::of(script_in("spring", SCRIPT), 10.0, 4.0).await;
    for _ in 0..20 {
        assert!(story.theirs("alone", 1.0).0, "nothing is limited");
    }
    for turn in 0..8 {
        assert_eq!(story.ours("shared", 1.0).await.allowed, turn < 4);
    }
    assert!(!story.theirs("shared", 1.0).0, "what ours has stored is seen");
}

/// In the same case Soul's script fails, and every request passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_soul_fails_ours_goes_on() {
    let story = Story::of(script_in("soul", SCRIPT), 10.0, 4.0).await;
    let words = ["EVAL", &story.original, "2", "a", "b", "10", "4", "1700000000", "1"];
    assert!(story.server.command(&words).is_error("ERR"));
    for turn in 0..8 {
        assert_eq!(story.ours("shared", 1.0).await.allowed, turn < 4);
    }
}
