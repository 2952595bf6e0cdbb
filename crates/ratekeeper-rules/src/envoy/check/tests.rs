use super::*;
use ratekeeper_core::{OnStoreFailure, Prepaid, Span, Speed};

use crate::{Format, RuleFile, read_str};

fn read(text: &str) -> RuleFile {
    read_str("envoy.yaml", text, Format::Yaml).unwrap_or_else(|problems| panic!("{problems}"))
}

fn policy_of(descriptor: &EnvoyDescriptor) -> &Policy {
    match &descriptor.limit.as_ref().unwrap().allowance {
        Allowance::Limited { policy, .. } => policy,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_tree_keeps_its_shape_and_order() {
    let file = read(
        "domain: edge\ndescriptors:\n  - key: a\n    value: foo*\n    share_threshold: true\n    quota_mode: true\n    \
         descriptors:\n      - key: b\n        rate_limit: { unit: MINUTE, requests_per_unit: 5, algorithm: sliding_log }\n  \
         - key: a\n    rate_limit: { unlimited: true }\n  - key: bad\n    value: 42\n    \
         rate_limit: { unit: day, requests_per_unit: 0 }\n",
    );
    let [first, second, third] = file.descriptors() else { panic!("{file:?}") };
    assert_eq!(first.value, EnvoyValue::of(Some("foo*")));
    assert!(first.share_threshold && first.quota_mode && first.limit.is_none());
    let inner = policy_of(&first.descriptors[0]);
    assert_eq!((inner.domain(), inner.name()), ("edge", "a=foo*,b"));
    assert_eq!(inner.rules()[0].rule(), &Rule::sliding_log("minute", Quota::per_minute(5)).count_refused(true));
    assert!(matches!(second.limit.as_ref().unwrap().allowance, Allowance::Unlimited));
    // As upstream, any scalar is text.
    assert_eq!(third.value, EnvoyValue::Literal("42".into()));
    assert!(matches!(third.limit.as_ref().unwrap().allowance, Allowance::RefuseAll { unit: EnvoyUnit::Day, .. }));
}

#[test]
fn months_and_years_are_as_long_as_upstream() {
    let file = read(
        "domain: d\ndescriptors:\n  - { key: m, rate_limit: { unit: Month, requests_per_unit: 1 } }\n  \
         - { key: y, rate_limit: { unit: year, requests_per_unit: 1 }, shadow_mode: true }\n",
    );
    let rule = |index: usize| policy_of(&file.descriptors()[index]).rules()[0].rule().clone();
    let days = |days: u64| Quota::per_micros(1, ratekeeper_core::Span::from_micros(days * 86_400_000_000));
    assert_eq!(rule(0), Rule::fixed_window("month", days(30)).count_refused(true));
    assert_eq!(rule(1), Rule::fixed_window("year", days(365)).shadow(true).count_refused(true));
}

#[test]
fn empty_fields_mean_none_as_upstream() {
    let file = read("domain: d\ndescriptors:\n  - key: k\n    value:\n    rate_limit:\n    descriptors:\n");
    assert_eq!(file.descriptors()[0].value, EnvoyValue::Any);
    assert!(file.descriptors()[0].limit.is_none());
    assert!(read("domain: d\ndescriptors:\n").descriptors().is_empty());
}

#[test]
fn paths_and_addresses_are_readable_in_names() {
    let literal = |text: &str| EnvoyValue::Literal(text.into());
    assert_eq!(name_below("", "PATH", &literal("/productpage")), "PATH=/productpage");
    assert_eq!(name_below("path=/api/*", "query", &literal("a=b&c=d")), "path=/api/*,query=a=b&c=d");
    assert_eq!(name_below("", "generic_key", &literal("100%, then *")), "generic_key=100%25.%2c. then %2a.");
}

#[test]
fn policies_of_different_descriptors_never_share_a_name() {
    let literal = |text: &str| EnvoyValue::Literal(text.into());
    let names = [
        name_below("", "a", &literal("b")),
        name_below("", "a=b", &EnvoyValue::Any),
        name_below("a", "b", &EnvoyValue::Any),
        name_below("", "a/b", &EnvoyValue::Any),
        name_below("", "a,b", &EnvoyValue::Any),
        name_below("a=b", "c", &literal("d")),
        name_below("", "a", &literal("b,c=d")),
        name_below("", "a", &literal("b/c=d")),
        name_below("", "a=b", &literal("c")),
        name_below("", "a", &literal("b=c")),
        name_below("", "a", &EnvoyValue::of(Some("b*"))),
        name_below("", "a", &EnvoyValue::of(Some("b*c"))),
        name_below("", "a", &EnvoyValue::of(Some("*b"))),
        name_below("", "a", &EnvoyValue::of(Some("*"))),
        name_below("", "a", &EnvoyValue::of(Some("**"))),
        name_below("", "a", &literal("b*")),
        name_below("", "a", &literal(&"x".repeat(200))),
        name_below("", "a", &literal(&"x".repeat(201))),
        name_below("", "a", &literal(&"é\n".repeat(100))),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(name.len() <= LONGEST_NAME && !name.chars().any(char::is_control), "{name}");
        assert!(!names[..index].contains(name), "{name}");
    }
}

/// `on_store_failure` is an addition to the format. Unlimited entries reject it.
#[test]
fn on_store_failure_is_accepted() {
    let file = read(
        "domain: edge\ndescriptors:\n  - key: a\n    rate_limit: { unit: day, requests_per_unit: 5, on_store_failure: closed }\n  \
         - key: b\n    rate_limit: { unit: day, requests_per_unit: 5 }\n",
    );
    let answers = file.descriptors().iter().map(|one| policy_of(one).rules()[0].rule().failure_answer());
    assert_eq!(answers.collect::<Vec<_>>(), [OnStoreFailure::Closed, OnStoreFailure::Local]);
    let wrong = "domain: edge\ndescriptors: [{ key: a, rate_limit: { unlimited: true, on_store_failure: open } }]\n";
    let problems = read_str("envoy.yaml", wrong, Format::Yaml).unwrap_err();
    assert!(problems.to_string().contains("unlimited counts nothing, so on_store_failure says nothing"), "{problems}");
}

/// `speed` is an addition, too. It has no effect while refused requests are counted, which the server decides.
#[test]
fn speed_is_accepted() {
    let file = read(
        "domain: edge\ndescriptors:\n  - key: a\n    rate_limit: { unit: second, requests_per_unit: 5000, speed: prepaid, \
         allotments: { turn: 20ms } }\n  - key: b\n    rate_limit: { unit: day, requests_per_unit: 5 }\n",
    );
    let prepaid = Prepaid::new().turn(Span::from_millis(20));
    let policies = file.descriptors().iter().map(policy_of);
    let speeds: Vec<_> = policies.map(|policy| (policy.speed(), policy.prepaid())).collect();
    assert_eq!(speeds, [(Speed::Prepaid(prepaid), None), (Speed::Exact, None)]);
    let wrong = "domain: edge\ndescriptors: [{ key: a, rate_limit: { unlimited: true, speed: prepaid } }]\n";
    let problems = read_str("envoy.yaml", wrong, Format::Yaml).unwrap_err();
    assert!(problems.to_string().contains("unlimited counts nothing, so speed says nothing"), "{problems}");
}

/// `metadata` is any mapping; its values keep their types.
#[test]
fn metadata_is_read_as_it_was_written() {
    let file = read(
        "domain: edge\ndescriptors:\n  - key: a\n    metadata: { name: 5, service: b, weight: 0.5, on: true, list: [x, 1] }\n    \
         rate_limit: { unit: day, requests_per_unit: 5 }\n",
    );
    let written = serde_json::to_string(&file.descriptors()[0].metadata).unwrap();
    assert_eq!(written, r#"{"list":["x",1],"name":5,"on":true,"service":"b","weight":0.5}"#);
    for (wrong, message) in [
        ("7".to_owned(), "metadata is 7, a number; use a mapping"),
        (format!("{{ text: {} }}", "x".repeat(5_000)), "metadata is 5011 bytes long as JSON; use at most 4096"),
    ] {
        let text = format!("domain: edge\ndescriptors:\n  - key: a\n    metadata: {wrong}\n");
        let problems = read_str("envoy.yaml", &text, Format::Yaml).unwrap_err();
        assert!(problems.to_string().contains(message), "{problems}");
    }
}
