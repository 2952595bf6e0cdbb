//! The gateways' own scripts, taken out of their jars, and ours: in turns on the same keys over random times. Same
//! decisions, same stored bytes, same times to live, whoever wrote last.

use std::time::Duration;

use tollgate_core::Micros;
use tollgate_redis::{
    PretendClock,
    gateway::{GatewayAnswer, GatewayBucket, GatewayClock, GatewayConfig, GatewayLimits, IdRule},
};
use tollgate_testkit::{
    interop::script_in,
    servers::{Binary, RedisServer},
};

const SCRIPT: &str = "META-INF/scripts/request_rate_limiter.lua";

/// Two buckets of the same story: in one the original decides alone, in the other both take turns.
struct Story {
    server: RedisServer,
    original: String,
    clock: PretendClock,
    bucket: GatewayBucket,
    rate: f64,
    capacity: f64,
}

impl Story {
    async fn of(original: String, rate: f64, capacity: f64) -> Self {
        let server = RedisServer::start();
        let clock = PretendClock::default();
        clock.set(Micros(1_700_000_000_000_000));
        let config =
            GatewayConfig::default().deadline(Duration::from_secs(10)).clock(GatewayClock::Pretend(clock.clone()));
        let limits = GatewayLimits::new(rate, capacity).unwrap();
        let bucket = GatewayBucket::connect_with(&server.url(), limits, config).await.unwrap();
        Self { server, original, clock, bucket, rate, capacity }
    }

    /// What the original says, and how many whole tokens it leaves.
    fn theirs(&self, id: &str, requested: f64) -> (bool, i64) {
        let [tokens, timestamp] = names(id);
        let now = (self.clock.now().0 / 1_000_000).to_string();
        let [rate, capacity, requested] = [self.rate, self.capacity, requested].map(|number| number.to_string());
        let words = ["EVAL", &self.original, "2", &tokens, &timestamp, &rate, &capacity, &now, &requested];
        let answer = self.server.command(&words).expect_ok();
        (answer.items()[0].integer() == 1, answer.items()[1].integer())
    }

    async fn ours(&self, id: &str, requested: f64) -> GatewayAnswer {
        self.bucket.take(id, requested).await.unwrap()
    }

    /// Tokens, timestamp, and how long they live.
    fn stored(&self, id: &str) -> [String; 4] {
        let [tokens, timestamp] = names(id);
        let ask = |command: &str, key: &str| self.server.command(&[command, key]).expect_ok();
        let expiry = |key: &str| {
            // To the second, by the server's own clock, which goes on between the two.
            let left = ask("PTTL", key).integer();
            (left + 500).div_euclid(1_000).to_string()
        };
        [ask("GET", &tokens).text(), ask("GET", &timestamp).text(), expiry(&tokens), expiry(&timestamp)]
    }
}

fn names(id: &str) -> [String; 2] {
    ["tokens", "timestamp"].map(|kind| format!("request_rate_limiter.{{{id}}}.{kind}"))
}

/// A small generator, so that a failure can be told again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Rates and capacities, whole and broken. Each fills in half a second at least: below that the originals keep nothing.
const LIMITS: [(f64, f64); 6] = [(10.0, 20.0), (1.0, 1.0), (3.0, 100.0), (0.5, 7.5), (2.5, 10.0), (100.0, 50.0)];

async fn in_turns(jar: &str) {
    let original = script_in(jar, SCRIPT);
    for (at, (rate, capacity)) in LIMITS.into_iter().enumerate() {
        let story = Story::of(original.clone(), rate, capacity).await;
        let mut chance = Chance(at as u64 + 1);
        for step in 0..400 {
            // Mostly within a second; at times long enough to fill up, and at times back.
            let ms = match chance.below(10) {
                0 => chance.below(30_000),
                1 => 0,
                _ => chance.below(900),
            };
            let now = story.clock.now();
            let back = chance.below(50) == 0;
            story.clock.set(if back { Micros(now.0 - ms * 1_000) } else { now + Micros(ms * 1_000) });
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let requested = match chance.below(4) {
                0 => (1 + chance.below(8)) as f64 * capacity / 8.0,
                _ => capacity.min(1.0),
            };
            let (allowed, left) = story.theirs("alone", requested);
            let told = format!("{jar} {rate}/{capacity}, step {step}: {requested} at {}", story.clock.now().0);
            if chance.below(2) == 0 {
                assert_eq!(story.theirs("shared", requested), (allowed, left), "{told}, by the original");
            } else {
                let ours = story.ours("shared", requested).await;
                #[allow(clippy::cast_possible_truncation, reason = "as the server does with what a script returns")]
                let whole = ours.tokens_left as i64;
                assert_eq!((ours.allowed, whole), (allowed, left), "{told}, by ours");
            }
            assert_eq!(story.stored("shared"), story.stored("alone"), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spring_cloud_gateway_and_ours_decide_and_store_the_same() {
    in_turns("spring").await;
}

/// Soul is what ShenYu was called when its limiter was last published as a jar of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soul_and_ours_decide_and_store_the_same() {
    in_turns("soul").await;
}

/// Spring leaves the time out, and goes by the server's clock, as ours does.
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
        // Ticks may come in between, but nobody gets what the other has taken.
        while passed < 100 && (theirs() && bucket.check("user").await.unwrap().allowed) {
            passed += 1;
        }
        assert!(passed < 10, "the two count together");
        let refused = bucket.take("user", 6.0).await.unwrap();
        assert!(!refused.allowed && refused.retry_after <= Duration::from_secs(3), "{refused:?}");
        server.clock().step_forward(Duration::from_secs(10));
    }
}

/// Below half a second to fill, the original writes nothing and limits nobody. Ours does, beside it and for both to see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_spring_forgets_ours_remembers() {
    let story = Story::of(script_in("spring", SCRIPT), 10.0, 4.0).await;
    for _ in 0..20 {
        assert!(story.theirs("alone", 1.0).0, "nobody is limited");
    }
    for turn in 0..8 {
        assert_eq!(story.ours("shared", 1.0).await.allowed, turn < 4);
    }
    assert!(!story.theirs("shared", 1.0).0, "what ours has stored is seen");
}

/// There ShenYu's forerunner fails in its script, and lets everybody pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_soul_fails_ours_goes_on() {
    let story = Story::of(script_in("soul", SCRIPT), 10.0, 4.0).await;
    let words = ["EVAL", &story.original, "2", "a", "b", "10", "4", "1700000000", "1"];
    assert!(story.server.command(&words).is_error("ERR"));
    for turn in 0..8 {
        assert_eq!(story.ours("shared", 1.0).await.allowed, turn < 4);
    }
}
