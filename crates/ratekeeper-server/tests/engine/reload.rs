//! Tests of reloads: new rules replace old ones, and stored counts survive.

use ratekeeper_core::{Prepaid, Span, Speed};
use ratekeeper_rules::{Format, read_str};

use crate::{Bench, is_denied, remaining};

const RULES: &str =
    "domain: api\npolicies:\n  - { name: p, rules: [{ name: r, algorithm: fixed_window, limit: 10, per: 1d }] }\n";

#[test]
fn used_permits_stay_used_when_the_limit_changes() {
    let bench = Bench::new(RULES);
    for _ in 0..4 {
        assert!(bench.key("api", "a").is_allowed());
    }
    bench.load(&RULES.replace("limit: 10", "limit: 20")).unwrap();
    assert_eq!(remaining(&bench.key("api", "a")), 15);
    bench.load(&RULES.replace("limit: 10", "limit: 3")).unwrap();
    assert!(is_denied(&bench.key("api", "a")));
}

#[test]
fn a_file_with_an_error_changes_nothing_and_is_reported() {
    let bench = Bench::new(RULES);
    assert!(bench.key("api", "a").is_allowed());
    let problem = bench.load(&RULES.replace("limit: 10", "limit: 0")).unwrap_err();
    assert!(problem.contains("limit is 0"), "{problem}");
    assert_eq!(remaining(&bench.key("api", "a")), 8);
    assert_eq!(bench.0.rules_status().problem.as_ref(), Some(&problem));
    assert!(bench.metric("ratekeeper_reloads_total{outcome=\"failed\"} 1"));
    assert!(bench.metric("ratekeeper_rules_stale 1"));
    bench.load(RULES).unwrap();
    assert_eq!((bench.0.rules_status().problem, bench.0.rules_status().generation), (None, 2));
    assert!(bench.metric("ratekeeper_rules_stale 0"));
}

/// A mistake in a file, or a rollback, must not reset counts: state is stored under the policy's name and survives its
/// removal.
#[test]
fn a_policy_removed_and_put_back_keeps_its_counts() {
    let bench = Bench::new(RULES);
    for _ in 0..4 {
        assert!(bench.key("api", "a").is_allowed());
    }
    bench.load(&RULES.replace("name: p,", "name: q,")).unwrap();
    assert_eq!(remaining(&bench.key("api", "a")), 9, "another name is another policy");
    bench.load(RULES).unwrap();
    assert_eq!(remaining(&bench.key("api", "a")), 5);
}

/// The embedded store numbers the versions of policies; an unchanged policy must not use a new number.
#[test]
fn reloading_the_same_rules_costs_nothing() {
    let bench = Bench::new(RULES);
    let file = read_str("rules.yaml", RULES, Format::Yaml).unwrap();
    for _ in 0..70_000 {
        bench.0.load(Ok(vec![file.clone()])).unwrap();
    }
    assert!(bench.key("api", "a").is_allowed());
}

#[test]
fn requests_in_flight_are_decided_by_one_rulebook_or_the_other() {
    let bench = Bench::new(RULES);
    let other = RULES.replace("name: r,", "name: s,").replace("limit: 10", "limit: 1000000");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (asking, done) = (&bench, &done);
        let asker = scope.spawn(move || {
            let mut asked = 0_u32;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let answer = asking.key("api", "a");
                for (name, rule) in answer.rules_of(&answer.subjects[0]) {
                    assert!(["r", "s"].contains(&name) && [10, 1_000_000].contains(&rule.limit));
                }
                asked += 1;
            }
            asked
        });
        for _ in 0..500 {
            bench.load(&other).unwrap();
            bench.load(RULES).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(asker.join().unwrap() > 0);
    });
}

/// A policy is installed again if only its speed has changed.
#[test]
fn a_new_speed_is_a_change() {
    let bench = Bench::new(RULES);
    let speed = || bench.0.rulebook().policies()[0].speed();
    assert_eq!(speed(), Speed::Exact);
    assert!(bench.key("api", "a").is_allowed());
    bench.load(&RULES.replace("name: p,", "name: p, speed: prepaid,")).unwrap();
    assert_eq!(speed(), Speed::prepaid());
    assert_eq!(remaining(&bench.key("api", "a")), 8, "the counts stay");
    bench.load(&RULES.replace("name: p,", "name: p, speed: prepaid, allotments: { turn: 5ms },")).unwrap();
    assert_eq!(speed(), Speed::Prepaid(Prepaid::new().turn(Span::from_millis(5))));
    bench.load(RULES).unwrap();
    assert_eq!(speed(), Speed::Exact);
}
