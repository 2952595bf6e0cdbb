//! Tests of deny and allow lists: policies and overrides without rules.

use ratekeeper_core::{DecidedBy, Effect, Verdict};
use ratekeeper_server::{
    engine::Resolution,
    request::Subject,
    rulebook::{Override, SwitchTarget},
};

use crate::{Bench, is_denied, remaining};

const RULES: &str = r#"
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules: [{ name: hour, algorithm: fixed_window, limit: 1, per: 1h }]
    overrides:
      - { key: eve, deny: true }
      - { key: root, unlimited: true }
  - { name: banned, match: { user: [mallory, trudy] }, deny: true }
  - { name: partners, match: { user: [acme] }, unlimited: true }
"#;

#[test]
fn lists_deny_and_exempt_without_the_store() {
    let bench = Bench::new(RULES);
    for user in ["mallory", "trudy", "eve"] {
        let answer = bench.take("api", &[("user", user)]);
        let decision = answer.decision.as_ref().unwrap();
        assert_eq!((decision.verdict, decision.decided_by), (Verdict::Never, DecidedBy::Nothing), "{user}");
        assert_eq!((answer.source(), answer.subjects[0].resolution), ("refused_always", Resolution::RefusedAlways));
        assert!(decision.rules.is_empty());
    }
    assert_eq!(bench.take("api", &[("user", "mallory")]).subjects[0].policy_name(), Some("banned"));
    for user in ["acme", "root"] {
        for _ in 0..3 {
            let answer = bench.take("api", &[("user", user)]);
            assert!(answer.is_allowed() && answer.decision.is_none(), "{user}");
            assert_eq!(answer.source(), "unlimited");
        }
    }
    assert_eq!(remaining(&bench.take("api", &[("user", "alice")])), 0);
    assert!(is_denied(&bench.take("api", &[("user", "alice")])));
    let labels = "domain=\"api\",policy=\"banned\",rule=\"deny\",verdict=\"never\",source=\"refused_always\"";
    assert!(bench.metric(&format!("ratekeeper_decisions_total{{{labels}}} 3")));
}

/// A request with several descriptors is refused if one of them is denied, and the others are not charged.
#[test]
fn a_denied_descriptor_refuses_the_request_and_charges_nothing() {
    let bench = Bench::new(RULES);
    let both = [Subject::descriptor(&[("user", "alice")]), Subject::descriptor(&[("user", "mallory")])];
    assert_eq!(bench.ask("api", &both).unwrap().verdict(), Verdict::Never);
    let with_exempt = [Subject::descriptor(&[("user", "alice")]), Subject::descriptor(&[("user", "acme")])];
    assert!(bench.ask("api", &with_exempt).unwrap().is_allowed(), "alice was not charged");
    assert!(!bench.ask("api", &with_exempt).unwrap().is_allowed(), "the exemption is for one of the two");
}

/// A take of 0 takes nothing, so it is not refused.
#[test]
fn a_take_of_nothing_is_not_denied() {
    let bench = Bench::new(RULES);
    let subject = Subject { cost: Some(0), ..Subject::descriptor(&[("user", "mallory")]) };
    assert!(bench.ask("api", &[subject]).unwrap().is_allowed());
}

#[test]
fn switches_apply_to_lists() {
    let bench = Bench::new(RULES);
    let banned = SwitchTarget { domain: "api".into(), policy: "banned".into(), rule: None };
    let ask = || bench.take("api", &[("user", "mallory")]);
    bench.0.switch(|switches| _ = switches.shadow.insert(banned.clone())).unwrap();
    let answer = ask();
    assert!(answer.is_allowed() && answer.subjects[0].is_shadowed());
    bench.0.switch(|switches| switches.shadow.clear()).unwrap();
    assert!(!ask().is_allowed());
    bench.0.switch(|switches| _ = switches.off.insert(banned)).unwrap();
    assert_eq!(ask().subjects[0].resolution, Resolution::SwitchedOff);
}

#[test]
fn the_admin_port_can_deny_a_key_for_a_while() {
    let bench = Bench::new(RULES);
    let deny = Override {
        domain: "api".into(),
        policy: "per-user".into(),
        key: "alice".into(),
        rules: Vec::new(),
        effect: Effect::Deny,
        until: None,
    };
    bench.0.add_override(deny).unwrap();
    assert_eq!(bench.take("api", &[("user", "alice")]).verdict(), Verdict::Never);
    assert!(bench.0.remove_override("api", "per-user", "alice").unwrap());
    assert!(bench.take("api", &[("user", "alice")]).is_allowed());
}
