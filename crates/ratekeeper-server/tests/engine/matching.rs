//! Tests of matching in the engine: the policy of a request, and the key it is counted under.

use ratekeeper_core::Verb;
use ratekeeper_server::{
    engine::Resolution,
    request::{Request, RequestError, Subject},
};

use crate::{Bench, is_denied, remaining};

const RULES: &str = r#"
domain: api
policies:
  - { name: everything, rules: [{ name: r, algorithm: token_bucket, limit: 1000, per: 1h }] }
  - { name: per-user, match: { user: "*" }, rules: [{ name: r, algorithm: token_bucket, limit: 100, per: 1h }] }
  - { name: vip, match: { user: vip }, rules: [{ name: r, algorithm: token_bucket, limit: 500, per: 1h }] }
  - { name: per-user-path, match: { user: "*", path: "*" }, rules: [{ name: r, algorithm: token_bucket, limit: 10, per: 1h }] }
  - { name: search, match: { user: "*", path: /search }, cost: 2, rules: [{ name: r, algorithm: token_bucket, limit: 5, per: 1h }] }
  - { name: other, match: { path: "*", tenant: "*" }, rules: [{ name: r, algorithm: token_bucket, limit: 7, per: 1h }] }
"#;

#[test]
fn the_most_specific_policy_wins() {
    let bench = Bench::new(RULES);
    assert_eq!(bench.falls_under(&[("tenant", "a")]), "everything");
    assert_eq!(bench.falls_under(&[("user", "a")]), "per-user");
    assert_eq!(bench.falls_under(&[("user", "vip")]), "vip");
    assert_eq!(bench.falls_under(&[("path", "/"), ("user", "vip")]), "per-user-path", "more entries before literals");
    assert_eq!(bench.falls_under(&[("user", "vip"), ("path", "/search")]), "search");
    // Two patterns match with two entries each and no literals: the first in the file applies.
    assert_eq!(bench.falls_under(&[("user", "a"), ("path", "/"), ("tenant", "t")]), "per-user-path");
}

#[test]
fn wildcards_become_part_of_the_key_and_literals_do_not() {
    let bench = Bench::new(RULES);
    assert_eq!(remaining(&bench.take("api", &[("user", "a"), ("path", "/x")])), 9);
    assert_eq!(remaining(&bench.take("api", &[("path", "/x"), ("user", "a")])), 8, "the order makes no difference");
    assert_eq!(remaining(&bench.take("api", &[("user", "b"), ("path", "/x")])), 9);
    assert_eq!(remaining(&bench.take("api", &[("user", "ab"), ("path", "/x")])), 9);
    assert_eq!(remaining(&bench.take("api", &[("other", "1")])), 999);
    assert_eq!(remaining(&bench.take("api", &[("other", "2")])), 998, "no wildcard: all are counted together");
}

#[test]
fn the_cost_is_that_of_the_request_else_of_the_policy() {
    let bench = Bench::new(RULES);
    let search = [("user", "a"), ("path", "/search")];
    assert_eq!(remaining(&bench.take("api", &search)), 3);
    assert_eq!(remaining(&bench.ask("api", &[Subject::descriptor(&search).costing(1)]).unwrap()), 2);
    let looked = bench.ask("api", &[Subject::descriptor(&search).costing(0)]).unwrap();
    assert_eq!(remaining(&looked), 2);
    assert!(!is_denied(&bench.take("api", &search)));
    assert!(is_denied(&bench.take("api", &search)));
}

/// Two subjects of one request: both pass and both are charged, or neither is.
#[test]
fn several_subjects_pass_together_or_not_at_all() {
    let bench = Bench::new(RULES);
    let (user, tenant) = ([("user", "a")], [("tenant", "t"), ("path", "/")]);
    let both = [Subject::descriptor(&user), Subject::descriptor(&tenant)];
    for _ in 0..7 {
        assert!(bench.ask("api", &both).unwrap().is_allowed());
    }
    let denied = bench.ask("api", &both).unwrap();
    assert!(is_denied(&denied));
    assert!(!denied.subjects[0].over_limit && denied.subjects[1].over_limit);
    assert_eq!(denied.rules_of(&denied.subjects[1]).next().unwrap().1.limit, 7);
    assert_eq!(remaining(&bench.take("api", &user)), 92, "the refused request is charged to no key");
}

#[test]
fn each_subject_is_charged_its_own_cost_and_one_named_twice_the_sum() {
    let bench = Bench::new(RULES);
    let (user, tenant) = ([("user", "a")], [("tenant", "t"), ("path", "/")]);
    let all = [
        Subject::descriptor(&user).costing(30),
        Subject::descriptor(&tenant).costing(2),
        Subject::descriptor(&user).costing(5),
    ];
    let answer = bench.ask("api", &all).unwrap();
    let left = |index: usize| answer.rules_of(&answer.subjects[index]).next().unwrap().1.remaining;
    assert_eq!((left(0), left(1), left(2)), (65, 5, 65));
    assert_eq!(answer.decision.as_ref().unwrap().rules.len(), 2);
}

#[test]
fn a_bare_key_selects_the_policy_for_everything() {
    let bench = Bench::new(RULES);
    assert_eq!(remaining(&bench.key("api", "user:42")), 999);
    assert_eq!(remaining(&bench.key("api", "user:42")), 998);
    assert_eq!(remaining(&bench.key("api", "user:43")), 999);
}

#[test]
fn a_bare_key_selects_the_only_policy_that_counts_by_one_value() {
    let bench = Bench::new(
        "domain: api\npolicies:\n  - { name: per-user, match: { user: \"*\" }, rules: [{ name: r, algorithm: gcra, limit: 9, per: 1h }] }\n  \
         - { name: vip, match: { user: vip }, rules: [{ name: r, algorithm: gcra, limit: 99, per: 1h }] }\n",
    );
    assert_eq!(remaining(&bench.key("api", "42")), 8);
    assert_eq!(remaining(&bench.take("api", &[("user", "42")])), 7, "and shares its count");
}

#[test]
fn a_policy_that_matches_on_key_takes_precedence() {
    let bench = Bench::new(
        "domain: api\npolicies:\n  - { name: all, rules: [{ name: r, algorithm: gcra, limit: 9, per: 1h }] }\n  \
         - { name: by-key, match: { key: \"*\" }, rules: [{ name: r, algorithm: gcra, limit: 99, per: 1h }] }\n  \
         - { name: one-key, match: { key: root }, rules: [{ name: r, algorithm: gcra, limit: 999, per: 1h }] }\n",
    );
    assert_eq!(remaining(&bench.key("api", "42")), 98);
    assert_eq!(remaining(&bench.key("api", "root")), 998);
}

#[test]
fn an_ambiguous_bare_key_is_an_error_that_names_the_policies() {
    let bench = Bench::new(
        "domain: api\npolicies:\n  - { name: per-user, match: { user: \"*\" }, rules: [{ name: r, algorithm: gcra, limit: 9, per: 1h }] }\n  \
         - { name: per-ip, match: { ip: \"*\" }, rules: [{ name: r, algorithm: gcra, limit: 99, per: 1h }] }\n",
    );
    let Err(RequestError::Invalid(message)) = bench.ask("api", &[Subject::key("42")]) else {
        panic!("it was answered")
    };
    assert!(message.contains("per-user, per-ip"), "{message}");
}

#[test]
fn an_unknown_domain_is_allowed_and_counted() {
    let bench = Bench::new(RULES);
    let answer = bench.key("nowhere", "42");
    assert!(answer.is_allowed() && answer.decision.is_none());
    assert_eq!(answer.subjects[0].resolution, Resolution::UnknownDomain);
    assert!(bench.metric("ratekeeper_unlimited_requests_total{reason=\"unknown_domain\"} 1"));
}

#[test]
fn invalid_requests_are_refused_with_a_remedy() {
    let bench = Bench::new(RULES);
    let long = "k".repeat(4_097);
    let many = vec![("user", "a"); 17];
    for (subject, part) in [
        (Subject::key(""), "the key is empty"),
        (Subject::key(&long), "4097 bytes long; 4096 is the most"),
        (Subject::descriptor(&[("", "x")]), "empty key"),
        (Subject::descriptor(&many), "17 entries; 16 is the most"),
        (Subject::key("a").costing(u64::MAX), "which is too large"),
    ] {
        let Err(RequestError::Invalid(message)) = bench.ask("api", &[subject]) else {
            panic!("{subject:?} was answered")
        };
        assert!(message.contains(part), "{message}");
    }
    assert!(bench.ask("", &[Subject::key("a")]).is_err());
    assert!(bench.ask("api", &[]).is_err());
    let many = vec![Subject::key("a"); 65];
    assert!(bench.ask("api", &many).is_err());
    let entries = [(long.as_str(), "x")];
    assert!(
        matches!(bench.ask("api", &[Subject::descriptor(&entries)]), Err(RequestError::Invalid(_))),
        "a key is not a value"
    );
}

#[test]
fn other_verbs_reach_the_same_key() {
    let bench = Bench::new(RULES);
    let subjects = [Subject::descriptor(&[("user", "a")]).costing(40)];
    let ask = |verb| bench.decide(&Request { domain: "api", subjects: &subjects, verb }).unwrap();
    assert_eq!(remaining(&bench.ask("api", &subjects).unwrap()), 60);
    assert_eq!(remaining(&ask(Verb::Peek)), 60);
    assert_eq!(remaining(&ask(Verb::Refund { at: None })), 100);
    assert_eq!(remaining(&ask(Verb::Penalize)), 60);
    assert_eq!(remaining(&ask(Verb::Settle { actual: 10, at: None })), 90);
    assert_eq!(remaining(&ask(Verb::Reset)), 100);
}
