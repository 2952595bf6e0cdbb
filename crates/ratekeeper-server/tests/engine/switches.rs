//! Tests of switches and admin overrides: kill switch, rules switched off, shadow mode, rules for one key.

use ratekeeper_core::{Effect, Quota, Rule, Speed, Timestamp};
use ratekeeper_rules::EnvoyUnit;
use ratekeeper_server::{
    engine::Resolution,
    request::{RequestedLimit, Subject},
    rulebook::{Override, SwitchTarget, Switches},
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
        effect: Effect::Limit,
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

/// Switches and overrides build policies from others, which keep the speed; inline limits are exact.
#[test]
fn the_speed_of_a_policy_survives_switches_and_overrides() {
    let bench = Bench::new(&RULES.replace("    rules:", "    speed: prepaid\n    rules:"));
    let speed = || bench.0.rulebook().policies()[0].speed();
    let speed_of = |user| bench.take("api", &[("user", user)]).subjects[0].policy.as_ref().unwrap().speed();
    let changes: [fn(&mut Switches); 6] = [
        |switches| switches.everything_shadow = true,
        |switches| switches.everything_shadow = false,
        |switches| _ = switches.shadow.insert(few()),
        |switches| _ = switches.off.insert(few()),
        |switches| _ = switches.off.remove(&few()),
        |switches| _ = switches.shadow.remove(&few()),
    ];
    for change in changes {
        bench.0.switch(change).unwrap();
        assert_eq!((speed(), speed_of("a")), (Speed::prepaid(), Speed::prepaid()));
    }
    let (domain, policy, key) = ("api".to_owned(), "per-user".to_owned(), "vip".to_owned());
    let rules = vec![Rule::token_bucket("more", Quota::per_second(1_000))];
    bench.0.add_override(Override { domain, policy, key, rules, effect: Effect::Limit, until: None }).unwrap();
    assert_eq!(speed_of("vip"), Speed::prepaid());
    bench.0.switch(|switches| switches.everything_shadow = true).unwrap();
    assert_eq!(speed_of("vip"), Speed::prepaid());

    let limit = RequestedLimit { requests_per_unit: 5, unit: EnvoyUnit::Minute };
    let inline = Subject { limit: Some(limit), ..Subject::descriptor(&USER) };
    bench.0.switch(|switches| switches.everything_shadow = false).unwrap();
    let answer = bench.ask("api", &[inline]).unwrap();
    assert_eq!(answer.subjects[0].policy.as_ref().unwrap().speed(), Speed::Exact);
}
