//! Outages: the ratekeeper process is killed and restarted under traffic.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use ratekeeper_testkit::servers::RedisServer;

use crate::edge::{ALLOWED, ERROR, Edge};

/// Counts of the responses that clients of Envoy received.
#[derive(Debug, Default)]
struct Seen {
    served: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Seen {
    fn note(&self, status: u16) {
        let counter = match status {
            200 => &self.served,
            429 => &self.refused,
            500 => &self.failed,
            other => panic!("Envoy answered {other}"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends requests for `user` from three threads while `meanwhile` runs, which receives the counts so far.
fn under_traffic(edge: &Edge, user: &str, meanwhile: impl FnOnce(&Seen)) -> Seen {
    let (seen, done) = (Seen::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    seen.note(edge.status("/", &[("x-user", user)]));
                }
            });
        }
        // The threads must end even if `meanwhile` panics.
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| meanwhile(&seen)));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = end {
            std::panic::resume_unwind(panic);
        }
    });
    seen
}

/// Waits until a counter has grown by this much.
fn grows(counter: &AtomicU64, by: u64) {
    let goal = counter.load(Ordering::Relaxed) + by;
    ratekeeper_testkit::servers::wait_until("traffic continues", std::time::Duration::from_secs(60), || {
        counter.load(Ordering::Relaxed) >= goal
    });
}

#[test]
fn requests_pass_during_an_outage_and_limits_apply_afterwards() {
    let edge = Edge::start();
    let seen = under_traffic(&edge, "ann", |seen| {
        grows(&seen.refused, 5);
        edge.kill();
        grows(&seen.served, 20);
        edge.revive();
        grows(&seen.refused, 20);
    });
    assert_eq!(seen.failed.into_inner(), 0, "failure_mode_deny is off: no request fails");
    assert!(edge.envoy.counter(ERROR) > 0 && edge.envoy.counter(ALLOWED) > 0);
}

/// Strict mode on Redis: permits taken before a crash are still taken after it.
#[test]
fn with_failure_mode_deny_no_request_passes_and_counts_on_redis_survive() {
    let redis = RedisServer::start();
    let edge = Edge::with(&redis.url(), |config| {
        let strict = config.replace("failure_mode_deny: false", "failure_mode_deny: true");
        assert_ne!(strict, config);
        strict
    });
    for _ in 0..4 {
        assert_eq!(edge.status("/", &[("x-user", "ann")]), 200);
    }
    edge.kill();
    let down = under_traffic(&edge, "ann", |seen| grows(&seen.failed, 20));
    assert_eq!(down.served.into_inner() + down.refused.into_inner(), 0, "every request gets 500 during the outage");

    edge.revive();
    let seen = under_traffic(&edge, "ann", |seen| {
        grows(&seen.refused, 20);
        edge.kill();
        grows(&seen.failed, 20);
        edge.revive();
        grows(&seen.refused, 20);
    });
    assert_eq!(seen.served.into_inner(), 6, "four of ten were spent before the first crash");
}
