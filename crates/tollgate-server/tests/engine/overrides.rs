//! Overrides in rule files: single keys with rules of their own, some of them for a while.

use tollgate_core::{Micros, Quota, Rule};
use tollgate_server::{
    engine::Subject,
    rulebook::{Exempt, Target},
};

use crate::{Bench, is_denied, remaining};

const RULES: &str = r#"
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 1, per: 1h }
    overrides:
      - key: acme
        rules: [{ name: burst, algorithm: token_bucket, limit: 50, per: 1h }]
      - key: globex
        until: 2027-01-31T00:00:00Z
        rules: [{ name: trial, algorithm: token_bucket, limit: 20, per: 1h }]
  - name: checkout
    match: { user: "*", path: /checkout, region: "*" }
    rules:
      - { name: minute, algorithm: token_bucket, limit: 1, per: 1h }
    overrides:
      - match: { user: acme, region: eu }
        rules: [{ name: minute, algorithm: token_bucket, limit: 30, per: 1h }]
"#;

/// 2027-01-31T00:00:00Z.
const END: Micros = Micros(1_801_353_600_000_000);

fn before_the_end() -> (Bench, tollgate_memory::ManualClock) {
    Bench::by_clock(RULES, END - Micros::HOUR)
}

#[test]
fn a_key_with_an_override_has_its_rules_and_no_other_key_has() {
    let (bench, _) = before_the_end();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 49);
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 19);
    assert_eq!(remaining(&bench.take("api", &[("user", "initech")])), 0);
    assert!(is_denied(&bench.take("api", &[("user", "initech")])));
}

#[test]
fn a_key_of_several_values_is_named_by_all_of_them() {
    let (bench, _) = before_the_end();
    let take = |user, region| bench.take("api", &[("region", region), ("user", user), ("path", "/checkout")]);
    assert_eq!(remaining(&take("acme", "eu")), 29);
    assert_eq!(remaining(&take("acme", "us")), 0);
    assert_eq!(remaining(&take("eu", "acme")), 0);
}

#[test]
fn an_override_ends_at_its_moment_and_not_before() {
    let (bench, clock) = before_the_end();
    clock.set(END - Micros(1));
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 19);
    clock.set(END);
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 0, "the policy's own rules");
    assert!(is_denied(&bench.take("api", &[("user", "globex")])));
}

#[test]
fn an_override_by_hand_goes_before_that_of_the_file_until_it_ends() {
    let (bench, clock) = before_the_end();
    let until = END - Micros::MINUTE;
    let by_hand = Exempt {
        domain: "api".into(),
        policy: "per-user".into(),
        key: "acme".into(),
        rules: vec![Rule::token_bucket("own", Quota::per_hour(7))],
        until: Some(until),
    };
    bench.0.exempt(by_hand).unwrap();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 6);
    clock.set(until);
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 49, "the file's override again");
}

#[test]
fn switches_of_the_policy_hold_for_its_overrides() {
    let (bench, _) = before_the_end();
    let trial = || bench.ask("api", &[Subject { cost: Some(21), ..Subject::descriptor(&[("user", "globex")]) }]);
    assert!(!trial().unwrap().is_allowed(), "more than it ever grants");
    let policy = Target { domain: "api".into(), policy: "per-user".into(), rule: None };
    bench.0.switch(|switches| _ = switches.watching.insert(policy)).unwrap();
    assert!(trial().unwrap().is_allowed(), "a rule that only watches refuses nobody");
}

#[test]
fn decisions_of_overrides_are_counted_under_the_name_of_the_policy() {
    let (bench, _) = before_the_end();
    for user in ["acme", "globex", "initech"] {
        let answer = bench.take("api", &[("user", user)]);
        assert_eq!(answer.subjects[0].policy.as_ref().unwrap().name(), "per-user");
    }
    let line = |rule, count| {
        format!(
            "tollgate_decisions_total{{domain=\"api\",policy=\"per-user\",rule=\"{rule}\",verdict=\"allow\",source=\"store\"}} {count}"
        )
    };
    assert!(bench.metric(&line("burst", 2)) && bench.metric(&line("trial", 1)));
    let counted = bench.0.rulebook().counted();
    let names: Vec<&str> = counted.iter().map(|one| one.policy.name()).collect();
    assert_eq!(names, ["checkout", "per-user"], "an override is no policy of its own");
    assert_eq!(counted[1].totals, [3, 0, 0]);
}

#[test]
fn what_a_key_has_used_of_its_override_survives_a_reload() {
    let (bench, _) = before_the_end();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 49);
    bench.load(&RULES.replace("key: globex", "key: hooli")).unwrap();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 48);
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 0, "no longer named");
    assert_eq!(remaining(&bench.take("api", &[("user", "hooli")])), 19);
}
