//! Domains with `match: all`: every policy that matches counts a request, in one decision.

use ratekeeper_core::{Verb, Verdict};
use ratekeeper_server::{
    engine::Resolution,
    request::{Descriptor, MAX_TARGETS, Request, Subject},
};

use crate::Bench;

const RULES: &str = r#"
domain: login
match: all
policies:
  - { name: everything, rules: [{ name: total, algorithm: fixed_window, limit: 6, per: 365d }] }
  - { name: per-ip, match: { ip: "*" }, rules: [{ name: ip, algorithm: fixed_window, limit: 4, per: 365d }] }
  - name: per-user
    match: { user: "*" }
    cost: 2
    rules: [{ name: user, algorithm: fixed_window, limit: 4, per: 365d }]
    overrides: [{ key: vip, rules: [{ name: user, algorithm: fixed_window, limit: 100, per: 365d }] }]
"#;

fn left(bench: &Bench, policy: &str, key: &str) -> u64 {
    let subject = Subject { descriptor: Descriptor::Policy { name: policy, key }, ..Subject::key("") };
    let peek = Request { domain: "login", subjects: &[subject], verb: Verb::Peek };
    bench.decide(&peek).unwrap().decision.unwrap().remaining()
}

/// Each policy is charged its own cost; a denial by one of them charges none.
#[test]
fn all_policies_are_charged_or_none() {
    let bench = Bench::new(RULES);
    let login = [("ip", "1"), ("user", "a"), ("agent", "x")];
    let answer = bench.take("login", &login);
    let names: Vec<_> = answer.subjects.iter().map(|part| (part.subject, part.policy_name(), part.cost)).collect();
    assert_eq!(names, [(0, Some("everything"), 1), (0, Some("per-ip"), 1), (0, Some("per-user"), 2)]);
    assert!(bench.take("login", &login).is_allowed());
    let denied = bench.take("login", &login);
    assert!(matches!(denied.verdict(), Verdict::Deny { .. }));
    assert_eq!(denied.deciding().unwrap().policy_name(), Some("per-user"));
    assert_eq!(denied.subjects.iter().map(|part| part.over_limit).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((left(&bench, "everything", ""), left(&bench, "per-ip", "1"), left(&bench, "per-user", "a")), (4, 2, 0));
    // Without the entry of a policy, the others count.
    assert_eq!(bench.take("login", &[("agent", "x")]).subjects.len(), 1);
    assert_eq!(left(&bench, "everything", ""), 3);
}

/// Overrides and switches apply per policy; other verbs reach all of them.
#[test]
fn overrides_switches_and_verbs_apply_to_each_policy() {
    let bench = Bench::new(RULES);
    let vip = [("ip", "1"), ("user", "vip")];
    assert_eq!(bench.take("login", &vip).decision.unwrap().rules[2].limit, 100);
    let subjects = [Subject::descriptor(&vip).costing(1)];
    let _ = bench.decide(&Request { domain: "login", subjects: &subjects, verb: Verb::Penalize }).unwrap();
    assert_eq!(
        (left(&bench, "everything", ""), left(&bench, "per-ip", "1"), left(&bench, "per-user", "vip")),
        (4, 2, 97)
    );
    let _ = bench.decide(&Request { domain: "login", subjects: &subjects, verb: Verb::Reset }).unwrap();
    assert_eq!((left(&bench, "everything", ""), left(&bench, "per-ip", "1")), (6, 4));
}

/// Several subjects that share a policy's key are one charge of the sum.
#[test]
fn subjects_share_the_policies_they_have_in_common() {
    let bench = Bench::new(RULES);
    let (first, second) = ([("ip", "1")], [("ip", "2")]);
    let answer = bench.ask("login", &[Subject::descriptor(&first), Subject::descriptor(&second)]).unwrap();
    assert_eq!(answer.subjects.iter().map(|part| part.subject).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!(answer.decision.as_ref().unwrap().rules.len(), 3, "everything, and two addresses");
    assert_eq!(answer.policies().map(|policy| policy.name()).collect::<Vec<_>>(), ["everything", "per-ip", "per-ip"]);
    assert_eq!(left(&bench, "everything", ""), 4);
}

#[test]
fn a_policy_by_name_and_the_bound_on_keys() {
    let bench = Bench::new(RULES);
    let by_name = |name| Subject { descriptor: Descriptor::Policy { name, key: "9" }, ..Subject::key("") };
    assert_eq!(bench.ask("login", &[by_name("per-ip")]).unwrap().decision.unwrap().remaining(), 3);
    let unknown = bench.ask("login", &[by_name("per-host")]).unwrap_err().to_string();
    let expected = "no policy of the domain is named \"per-host\"; it has everything, per-ip, per-user";
    assert_eq!(unknown, expected);
    let elsewhere = bench.ask("elsewhere", &[by_name("per-ip")]).unwrap();
    assert_eq!(elsewhere.subjects[0].resolution, Resolution::UnknownDomain);

    let values: Vec<String> = (0..MAX_TARGETS).map(|number| number.to_string()).collect();
    let entries: Vec<[(&str, &str); 1]> = values.iter().map(|value| [("ip", value.as_str())]).collect();
    let subjects: Vec<Subject<'_>> = entries.iter().map(|entries| Subject::descriptor(entries).costing(0)).collect();
    assert!(bench.ask("login", &subjects[..MAX_TARGETS - 1]).unwrap().is_allowed());
    let refused = bench.ask("login", &subjects).unwrap_err().to_string();
    assert!(refused.contains("more than 64 keys"), "{refused}");
}
