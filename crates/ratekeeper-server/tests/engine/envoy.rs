//! Tests of the Envoy format in the engine: matching in the descriptor tree, and the effect of its fields.

use ratekeeper_core::Verdict;
use ratekeeper_rules::EnvoyUnit;
use ratekeeper_server::{
    engine::Resolution,
    request::{RequestedLimit, Subject},
};

use crate::{Bench, is_denied, remaining};

const RULES: &str = r#"
domain: edge
descriptors:
  - key: ip
    rate_limit: { unit: hour, requests_per_unit: 100, name: per-ip }
    descriptors:
      - key: path
        value: /login
        rate_limit: { unit: hour, requests_per_unit: 3 }
  - { key: ip, value: 10.0.0.1, rate_limit: { unlimited: true } }
  - { key: ip, value: 10.*, rate_limit: { unit: hour, requests_per_unit: 50 } }
  - { key: ip, value: 10.9*, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: net, value: 192.*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: banned, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: account, rate_limit: { unit: hour, requests_per_unit: 1000, name: account, replaces: [{ name: per-ip }] } }
  - { key: open }
"#;

#[test]
fn values_win_over_wildcards_and_wildcards_over_the_key_alone() {
    let bench = Bench::new(RULES);
    assert_eq!(bench.take("edge", &[("ip", "10.0.0.1")]).subjects[0].resolution, Resolution::Unlimited);
    assert_eq!(remaining(&bench.take("edge", &[("ip", "10.1.1.1")])), 49);
    assert_eq!(remaining(&bench.take("edge", &[("ip", "10.9.1.1")])), 49, "the first wildcard of the file");
    assert_eq!(remaining(&bench.take("edge", &[("ip", "1.1.1.1")])), 99);
    assert_eq!(remaining(&bench.take("edge", &[("ip", "1.1.1.2")])), 99, "each value is counted on its own");
}

#[test]
fn a_limit_counts_only_where_the_entries_end() {
    let bench = Bench::new(RULES);
    assert_eq!(remaining(&bench.take("edge", &[("ip", "1.1.1.1"), ("path", "/login")])), 2);
    assert_eq!(
        bench.take("edge", &[("ip", "1.1.1.1"), ("path", "/other")]).subjects[0].resolution,
        Resolution::Unmatched
    );
    assert_eq!(bench.take("edge", &[("path", "/login")]).subjects[0].resolution, Resolution::Unmatched);
    assert_eq!(
        bench.take("edge", &[("path", "/login"), ("ip", "1.1.1.1")]).subjects[0].resolution,
        Resolution::Unmatched
    );
    assert_eq!(bench.take("edge", &[("open", "x")]).subjects[0].resolution, Resolution::Unmatched);
    // The literal 10.0.0.1 has no nested descriptors, and matching does not backtrack to the key without a value.
    assert_eq!(
        bench.take("edge", &[("ip", "10.0.0.1"), ("path", "/login")]).subjects[0].resolution,
        Resolution::Unmatched
    );
}

#[test]
fn a_shared_threshold_counts_all_values_of_a_wildcard_together() {
    let bench = Bench::new(RULES);
    assert_eq!(remaining(&bench.take("edge", &[("net", "192.168.0.1")])), 4);
    assert_eq!(remaining(&bench.take("edge", &[("net", "192.168.0.2")])), 3);
}

#[test]
fn a_limit_of_zero_refuses_every_request_and_the_others_count_it() {
    let bench = Bench::new(RULES);
    let answer = bench.take("edge", &[("banned", "x")]);
    assert_eq!((answer.verdict(), answer.subjects[0].resolution), (Verdict::Never, Resolution::RefusedAlways));
    let (ip, banned) = ([("ip", "2.2.2.2")], [("banned", "x")]);
    let both = bench.ask("edge", &[Subject::descriptor(&ip), Subject::descriptor(&banned)]).unwrap();
    assert_eq!(both.verdict(), Verdict::Never);
    assert!(!both.subjects[0].over_limit && both.subjects[1].over_limit);
    assert_eq!(remaining(&bench.take("edge", &ip)), 98);
    let labels = "domain=\"edge\",policy=\"banned\",rule=\"day\",verdict=\"never\",source=\"refused_always\"";
    assert!(bench.metric(&format!("ratekeeper_decisions_total{{{labels}}} 2")), "they are counted all the same");
}

#[test]
fn shadow_mode_lets_pass_and_a_single_quota_does_not() {
    let bench = Bench::new(RULES);
    for (key, quota_mode) in [("watched", false), ("quota", true)] {
        let first = bench.take("edge", &[(key, "x")]);
        assert!(first.is_allowed() && !first.subjects[0].over_limit);
        let second = bench.take("edge", &[(key, "x")]);
        assert_eq!((second.is_allowed(), second.subjects[0].quota_mode), (!quota_mode, quota_mode));
        assert!(second.subjects[0].over_limit && second.subjects[0].is_shadowed());
    }
    assert!(bench.metric("ratekeeper_shadow_denials_total{domain=\"edge\",policy=\"watched\",rule=\"hour\"} 1"));
}

/// A ban in shadow mode is counted and not enforced.
#[test]
fn a_ban_in_shadow_mode_is_counted() {
    let watching = RULES.replace("key: banned,", "key: banned, shadow_mode: true,");
    assert_ne!(watching, RULES);
    let bench = Bench::new(&watching);
    let answer = bench.take("edge", &[("banned", "x")]);
    assert!(answer.is_allowed() && answer.subjects[0].is_shadowed());
    assert_eq!((answer.source(), answer.subjects[0].policy_name()), ("refused_always", Some("banned")));
    assert!(bench.metric("ratekeeper_shadow_denials_total{domain=\"edge\",policy=\"banned\",rule=\"day\"} 1"));
}

#[test]
fn a_limit_that_replaces_another_leaves_it_uncharged() {
    let bench = Bench::new(RULES);
    let (ip, account) = ([("ip", "3.3.3.3")], [("account", "a")]);
    let both = bench.ask("edge", &[Subject::descriptor(&ip), Subject::descriptor(&account)]).unwrap();
    assert_eq!(
        both.subjects.iter().map(|subject| subject.resolution).collect::<Vec<_>>(),
        [Resolution::Replaced, Resolution::Decided]
    );
    assert_eq!(both.rules_of(&both.subjects[1]).map(|(name, _)| name).collect::<Vec<_>>(), ["account"]);
    assert_eq!(remaining(&both), 999);
    assert_eq!(remaining(&bench.take("edge", &ip)), 99, "alone it counts");
}

#[test]
fn an_inline_limit_replaces_that_of_the_file() {
    let bench = Bench::new(RULES);
    let entries = [("ip", "4.4.4.4")];
    let limit = Some(RequestedLimit { requests_per_unit: 2, unit: EnvoyUnit::Hour });
    let subject = Subject { limit, ..Subject::descriptor(&entries) };
    assert_eq!(remaining(&bench.ask("edge", &[subject]).unwrap()), 1);
    assert!(bench.ask("edge", &[subject]).unwrap().is_allowed());
    let denied = bench.ask("edge", &[subject]).unwrap();
    assert!(is_denied(&denied));
    assert_eq!(denied.subjects[0].written, limit);
    assert_eq!(remaining(&bench.take("edge", &entries)), 99, "the file's own count is another");
}
