//! Tests of switches and admin overrides: kill switch, rules switched off, shadow mode, rules for one key.

use ratekeeper_core::{Quota, Rule, Timestamp};
use ratekeeper_server::{
    engine::Resolution,
    rulebook::{Override, SwitchTarget},
};

use crate::{Bench, is_denied, remaining};

const RULES: &str = r#"
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules:
      - { name: few, algorithm: token_bucket, limit: 1, per: 1h }
      - { name: many, algorithm: token_bucket, limit: 100, per: 1h }
"#;

const USER: [(&str, &str); 1] = [("user", "a")];

fn spent() -> Bench {
    let bench = Bench::new(RULES);
    assert!(bench.take("api", &USER).is_allowed());
    assert!(is_denied(&bench.take("api", &USER)));
    bench
}

fn few() -> SwitchTarget {
    SwitchTarget { domain: "api".into(), policy: "per-user".into(), rule: Some("few".into()) }
}

#[test]
fn the_kill_switch_allows_everything_until_it_is_unset() {
    let bench = spent();
    bench.0.switch(|switches| switches.everything_off = true).unwrap();
    let answer = bench.take("api", &USER);
    assert!(answer.is_allowed() && answer.subjects[0].resolution == Resolution::SwitchedOff);
    bench.0.switch(|switches| switches.everything_off = false).unwrap();
    assert!(is_denied(&bench.take("api", &USER)), "nothing was forgotten meanwhile");
}

#[test]
fn one_rule_can_be_switched_off() {
    let bench = spent();
    bench.0.switch(|switches| _ = switches.off.insert(few())).unwrap();
    let answer = bench.take("api", &USER);
    assert!(answer.is_allowed());
    assert_eq!(answer.rules_of(&answer.subjects[0]).map(|(name, _)| name).collect::<Vec<_>>(), ["many"]);
    assert_eq!(remaining(&answer), 98);
}

#[test]
fn a_policy_without_rules_limits_nothing() {
    let bench = spent();
    bench.0.switch(|switches| _ = switches.off.insert(SwitchTarget { rule: None, ..few() })).unwrap();
    assert_eq!(bench.take("api", &USER).subjects[0].resolution, Resolution::SwitchedOff);
}

#[test]
fn a_shadow_rule_counts_and_does_not_refuse() {
    let bench = spent();
    bench.0.switch(|switches| _ = switches.shadow.insert(few())).unwrap();
    let answer = bench.take("api", &USER);
    assert!(answer.is_allowed() && answer.subjects[0].over_limit);
    bench.0.switch(|switches| switches.shadow.clear()).unwrap();
    assert!(is_denied(&bench.take("api", &USER)), "what was used is still used");
    bench.0.switch(|switches| switches.everything_shadow = true).unwrap();
    assert!(bench.take("api", &USER).is_allowed());
}

#[test]
fn a_key_can_have_an_override_until_it_expires() {
    let bench = spent();
    let own = |until| Override {
        domain: "api".into(),
        policy: "per-user".into(),
        key: "a".into(),
        rules: vec![Rule::token_bucket("own", Quota::per_hour(50))],
        until,
    };
    bench.0.add_override(own(None)).unwrap();
    assert_eq!(remaining(&bench.take("api", &USER)), 49);
    assert_eq!(remaining(&bench.take("api", &[("user", "b")])), 0, "others are not meant");
    bench.0.add_override(own(Some(Timestamp::from_micros(1)))).unwrap();
    assert!(is_denied(&bench.take("api", &USER)), "an exception that has ended holds no more");
    assert!(bench.0.remove_override("api", "per-user", "a").unwrap() || bench.0.admin_overrides().is_empty());
    assert!(bench.0.admin_overrides().is_empty());
}

#[test]
fn switches_survive_a_reload() {
    let bench = spent();
    bench.0.switch(|switches| _ = switches.off.insert(few())).unwrap();
    bench.load(&RULES.replace("limit: 100", "limit: 10")).unwrap();
    let answer = bench.take("api", &USER);
    assert!(answer.is_allowed());
    assert_eq!(answer.decision.unwrap().limit(), 10);
}
