//! Tests of throttles: token buckets whose numbers come with the request.

use ratekeeper_core::Span;
use ratekeeper_server::{
    engine::{MAX_INLINE_LIMITS, Throttle},
    request::RequestError,
    wiring::StoreHealth,
};

use crate::Bench;

const THROTTLE: Throttle = Throttle { burst: 3, count: 30, period: Span::HOUR };

fn throttle(
    bench: &Bench,
    key: &str,
    throttle: Throttle,
    cost: u64,
) -> Result<ratekeeper_core::Decision, RequestError> {
    bench.0.now(|| bench.0.throttle(key, throttle, cost)).unwrap()
}

#[test]
fn a_throttle_is_a_bucket_with_inline_numbers() {
    let bench = Bench::without_rules();
    for left in [2, 1, 0] {
        let decision = throttle(&bench, "u", THROTTLE, 1).unwrap();
        assert!(decision.is_allowed());
        assert_eq!((decision.remaining(), decision.limit()), (left, 3));
    }
    assert!(!throttle(&bench, "u", THROTTLE, 1).unwrap().is_allowed());
    assert!(throttle(&bench, "u", THROTTLE, 0).unwrap().is_allowed(), "a quantity of 0 looks only");
    assert!(throttle(&bench, "v", THROTTLE, 1).unwrap().is_allowed());
}

#[test]
fn invalid_numbers_are_refused_by_name() {
    let bench = Bench::without_rules();
    for (numbers, part) in [
        (Throttle { burst: 0, ..THROTTLE }, "burst"),
        (Throttle { count: 0, ..THROTTLE }, "limit"),
        (Throttle { period: Span::ZERO, ..THROTTLE }, "per"),
        (Throttle { burst: u64::MAX, ..THROTTLE }, "burst"),
    ] {
        let Err(RequestError::Invalid(message)) = throttle(&bench, "u", numbers, 1) else {
            panic!("{numbers:?} was answered")
        };
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn the_table_of_inline_limits_is_bounded() {
    let bench = Bench::without_rules();
    let used = Throttle { burst: 100, count: 1, period: Span::DAY };
    assert_eq!(throttle(&bench, "kept", used, 30).unwrap().remaining(), 70);
    for count in 1..=3 * MAX_INLINE_LIMITS as u64 {
        assert!(throttle(&bench, "u", Throttle { count, ..THROTTLE }, 0).is_ok());
    }
    assert!(bench.0.telemetry().evicted_inline_limits.get() > MAX_INLINE_LIMITS as u64);
    let versions = StoreHealth::of(bench.0.store()).policy_versions;
    assert!(versions <= MAX_INLINE_LIMITS as u64 + 2, "{versions} versions; dropped ones are freed");
    assert_eq!(throttle(&bench, "kept", used, 1).unwrap().remaining(), 69, "its count was kept");
    let metrics = bench.0.telemetry().encode().unwrap();
    let series = metrics.lines().filter(|line| line.starts_with("ratekeeper_decisions_total")).count();
    assert!(series < 10, "callers' numbers do not become labels: {series}");
}

#[test]
fn the_switches_for_everything_apply_to_throttles() {
    let bench = Bench::without_rules();
    bench.0.switch(|switches| switches.everything_off = true).unwrap();
    for _ in 0..9 {
        let decision = throttle(&bench, "u", THROTTLE, 1).unwrap();
        assert!(decision.is_allowed() && decision.remaining() == THROTTLE.burst, "{decision:?}");
    }
    assert_eq!(StoreHealth::of(bench.0.store()).keys, 0, "the store was not asked");
    bench.0.switch(|switches| switches.everything_off = false).unwrap();

    bench.0.switch(|switches| switches.everything_shadow = true).unwrap();
    for _ in 0..THROTTLE.burst + 2 {
        assert!(throttle(&bench, "u", THROTTLE, 1).unwrap().is_allowed());
    }
    let labels = r#"domain="ratekeeper:throttle",policy="inline",rule="throttle""#;
    assert!(bench.metric(&format!("ratekeeper_shadow_denials_total{{{labels}}} 2")));
    assert!(!bench.0.telemetry().encode().unwrap().contains(r#"verdict="deny""#), "no request was refused");
}
