//! Tests of overrides: rules for single keys, with and without expiry.

use ratekeeper_core::{Effect, Quota, Rule, Span, Timestamp};
use ratekeeper_server::{
    request::Subject,
    rulebook::{Override, SwitchTarget},
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
const END: Timestamp = Timestamp::from_micros(1_801_353_600_000_000);

fn before_the_end() -> (Bench, ratekeeper_memory::ManualClock) {
    Bench::by_clock(RULES, END - Span::HOUR)
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
fn an_override_names_all_values_of_its_key() {
    let (bench, _) = before_the_end();
    let take = |user, region| bench.take("api", &[("region", region), ("user", user), ("path", "/checkout")]);
    assert_eq!(remaining(&take("acme", "eu")), 29);
    assert_eq!(remaining(&take("acme", "us")), 0);
    assert_eq!(remaining(&take("eu", "acme")), 0);
}

#[test]
fn an_override_expires_exactly() {
    let (bench, clock) = before_the_end();
    clock.set(END - Span::from_micros(1));
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 19);
    clock.set(END);
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 0, "the policy's own rules");
    assert!(is_denied(&bench.take("api", &[("user", "globex")])));
}

#[test]
fn an_admin_override_takes_precedence_until_it_expires() {
    let (bench, clock) = before_the_end();
    let until = END - Span::MINUTE;
    let by_hand = Override {
        domain: "api".into(),
        policy: "per-user".into(),
        key: "acme".into(),
        rules: vec![Rule::token_bucket("own", Quota::per_hour(7))],
        effect: Effect::Limit,
        until: Some(until),
    };
    bench.0.add_override(by_hand).unwrap();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 6);
    clock.set(until);
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 49, "the file's override again");
}

#[test]
fn switches_of_the_policy_hold_for_its_overrides() {
    let (bench, _) = before_the_end();
    let trial = || bench.ask("api", &[Subject { cost: Some(21), ..Subject::descriptor(&[("user", "globex")]) }]);
    assert!(!trial().unwrap().is_allowed(), "more than it ever grants");
    let policy = SwitchTarget { domain: "api".into(), policy: "per-user".into(), rule: None };
    bench.0.switch(|switches| _ = switches.shadow.insert(policy)).unwrap();
    assert!(trial().unwrap().is_allowed(), "a rule in shadow mode refuses nothing");
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
            "ratekeeper_decisions_total{{domain=\"api\",policy=\"per-user\",rule=\"{rule}\",verdict=\"allow\",source=\"store\"}} {count}"
        )
    };
    assert!(bench.metric(&line("burst", 2)) && bench.metric(&line("trial", 1)));
    let counted = bench.0.rulebook().policy_counts();
    let names: Vec<&str> = counted.iter().map(|one| one.policy.name()).collect();
    assert_eq!(names, ["checkout", "per-user"], "an override is not listed as a policy");
    assert_eq!(counted[1].totals.verdicts, [3, 0, 0]);
    assert_eq!(counted[1].totals.sources, [("store", 3)].into());
}

#[test]
fn counts_of_an_override_survive_a_reload() {
    let (bench, _) = before_the_end();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 49);
    bench.load(&RULES.replace("key: globex", "key: hooli")).unwrap();
    assert_eq!(remaining(&bench.take("api", &[("user", "acme")])), 48);
    assert_eq!(remaining(&bench.take("api", &[("user", "globex")])), 0, "no longer named");
    assert_eq!(remaining(&bench.take("api", &[("user", "hooli")])), 19);
}
