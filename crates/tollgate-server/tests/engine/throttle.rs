//! Buckets whose numbers come with the call.

use tollgate_core::Micros;
use tollgate_server::engine::{AskError, MAX_ADHOC, Throttle};

use crate::Bench;

const THROTTLE: Throttle = Throttle { burst: 3, count: 30, period: Micros::HOUR };

fn throttle(bench: &Bench, key: &str, throttle: Throttle, cost: u64) -> Result<tollgate_core::Decision, AskError> {
    bench.0.throttle_now(key, throttle, cost).unwrap()
}

#[test]
fn a_throttle_is_a_bucket_with_the_numbers_of_the_call() {
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
fn numbers_that_make_no_bucket_are_refused_by_name() {
    let bench = Bench::without_rules();
    for (numbers, part) in [
        (Throttle { burst: 0, ..THROTTLE }, "burst"),
        (Throttle { count: 0, ..THROTTLE }, "limit"),
        (Throttle { period: Micros::ZERO, ..THROTTLE }, "per"),
        (Throttle { burst: u64::MAX, ..THROTTLE }, "burst"),
    ] {
        let Err(AskError::Bad(message)) = throttle(&bench, "u", numbers, 1) else { panic!("{numbers:?} was answered") };
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn the_table_of_numbers_has_an_end() {
    let bench = Bench::without_rules();
    for count in 1..=MAX_ADHOC as u64 {
        assert!(throttle(&bench, "u", Throttle { count, ..THROTTLE }, 1).is_ok());
    }
    let Err(AskError::Bad(message)) = throttle(&bench, "u", Throttle { count: 1_000_000, ..THROTTLE }, 1) else {
        panic!("one more was taken")
    };
    assert!(message.contains("rule file"), "{message}");
    assert!(throttle(&bench, "u", Throttle { count: 7, ..THROTTLE }, 0).is_ok(), "those known still work");
    let metrics = bench.0.telemetry().encode().unwrap();
    let series = metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total")).count();
    assert!(series < 10, "callers' numbers do not become labels: {series}");
}

#[test]
fn the_switch_for_everything_holds_for_these_as_well() {
    let bench = Bench::without_rules();
    bench.0.switch(|switches| switches.everything_off = true).unwrap();
    for _ in 0..9 {
        let decision = throttle(&bench, "u", THROTTLE, 1).unwrap();
        assert!(decision.is_allowed() && decision.remaining() == THROTTLE.burst, "{decision:?}");
    }
    assert_eq!(bench.0.store().health().keys, 0, "the store was not asked");
    bench.0.switch(|switches| switches.everything_off = false).unwrap();

    bench.0.switch(|switches| switches.everything_watches = true).unwrap();
    for _ in 0..THROTTLE.burst + 2 {
        assert!(throttle(&bench, "u", THROTTLE, 1).unwrap().is_allowed());
    }
    let labels = r#"domain="tollgate:throttle",policy="ad hoc",rule="throttle""#;
    assert!(bench.metric(&format!("tollgate_shadow_denials_total{{{labels}}} 2")));
    assert!(!bench.0.telemetry().encode().unwrap().contains(r#"verdict="deny""#), "nobody was refused");
}
