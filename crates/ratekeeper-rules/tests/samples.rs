//! The samples in `rules/`: every good one is read, and every bad one has exactly the problem its first line expects.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may say what they expect, too")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratekeeper_core::{Prepaid, Span, Speed, Timestamp};
use ratekeeper_rules::{MatchValue, Problems, RuleFile, read_path, read_paths};

fn samples(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules").join(folder)
}

fn good(name: &str) -> RuleFile {
    read_path(samples("good").join(name)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn names(folder: &str) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(samples(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

#[test]
fn every_good_sample_is_read() {
    let names = names("good");
    assert!(names.len() >= 10);
    for path in names {
        let file = read_path(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(!file.policies().is_empty() || !file.descriptors().is_empty(), "{}", path.display());
        for entry in file.policies() {
            assert_eq!(entry.policy.domain(), file.domain);
        }
    }
}

/// `# expect: <line>: <field>: <part of the message>`
#[test]
fn every_bad_sample_has_the_one_problem_it_shows() {
    let mut failures = Vec::new();
    let names = names("bad");
    assert!(names.len() >= 100);
    for path in names {
        let bytes = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let expected = text.lines().next().unwrap_or_default();
        let Some(expected) = expected.strip_prefix("# expect: ") else {
            failures.push(format!("{}: no expectation in its first line", path.display()));
            continue;
        };
        let parts: Vec<&str> = expected.splitn(3, ": ").collect();
        let &[line, field, message] = parts.as_slice() else { panic!("{}: {expected}", path.display()) };
        let problems = match read_path(&path) {
            Ok(_) => {
                failures.push(format!("{}: was accepted", path.display()));
                continue;
            }
            Err(problems) => problems,
        };
        let fits = problems.count() == 1
            && problems.iter().all(|problem| {
                problem.line.to_string() == line && problem.field == field && problem.message.contains(message)
            });
        if !fits {
            failures.push(format!("expected {expected}\n{problems}\n"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_toml_twin_says_the_same() {
    let (yaml, toml) = (good("several-rules.yaml"), good("several-rules.toml"));
    // A domain belongs to one file, so the twin has another.
    assert_eq!(format!("{}-toml", yaml.domain), toml.domain);
    assert_eq!(yaml.policies().len(), toml.policies().len());
    for (left, right) in yaml.policies().iter().zip(toml.policies()) {
        assert_eq!(left.policy.name(), right.policy.name());
        assert_eq!(left.policy.rules(), right.policy.rules());
        assert_eq!(left.matcher, right.matcher);
        assert_eq!(left.cost, right.cost);
    }
    let (yaml, json) = (good("quickstart.yaml"), good("quickstart.json"));
    assert_eq!(yaml.policies()[0].policy.rules(), json.policies()[0].policy.rules());
}

#[test]
fn patterns_keep_the_order_of_the_file() {
    let file = good("several-rules.yaml");
    let paid = &file.policies()[0];
    let literal = MatchValue::Literal("paid".to_owned());
    assert_eq!(paid.matcher, [("plan".to_owned(), literal), ("user".to_owned(), MatchValue::Any)]);
    assert_eq!((paid.cost, paid.line), (2, 5));
    assert!(file.policies()[2].matcher.is_empty());
}

#[test]
fn a_shadow_rule_watches_and_a_disabled_one_is_left_out() {
    let file = good("shadow-rollout.yaml");
    let rules = file.policies()[0].policy.rules();
    assert_eq!(rules.len(), 2);
    assert!(!rules[0].is_shadow() && rules[1].is_shadow());
    assert_eq!(rules[0].rule().quota().burst_or_limit(), 200);
}

#[test]
fn an_override_names_its_key_by_the_values_it_is_made_of() {
    let file = good("overrides.yaml");
    let end = Some(Timestamp::from_secs(1_801_439_999));
    let [acme, globex] = file.policies()[0].overrides.as_slice() else { panic!("two overrides") };
    assert_eq!((acme.values.as_slice(), acme.until), (&["acme".to_owned()][..], None));
    assert_eq!((globex.values.as_slice(), globex.until), (&["globex".to_owned()][..], end));
    assert_eq!(globex.rules.len(), 2);
    // The same moment with another offset; in the alphabetical order of names.
    let checkout = &file.policies()[1].overrides[0];
    assert_eq!((checkout.values.as_slice(), checkout.until), (&["eu".to_owned(), "acme".to_owned()][..], end));
    assert_eq!(good("overrides.toml").policies()[0].overrides[0].until, end, "TOML's own dates will do");
}

#[test]
fn a_lease_is_not_a_period() {
    let file = good("concurrency.yaml");
    let rule = file.policies()[0].policy.rules()[0].rule();
    let lease = Span::MINUTE;
    assert_eq!(rule.algorithm(), ratekeeper_core::AlgorithmSpec::Concurrency { lease });
}

/// A field of the policy wins over that of `defaults`, which wins over the number of core.
#[test]
fn speed_is_inherited_field_by_field() {
    let file = good("prepaid.yaml");
    let speeds: Vec<Speed> = file.policies().iter().map(|entry| entry.policy.speed()).collect();
    let inherited = Prepaid::new().turn(Span::from_millis(50)).hold(Span::SECOND);
    let search = inherited.hot_per_second(500).turn(Span::from_millis(20)).remember(Span::ZERO);
    assert_eq!(speeds, [Speed::Prepaid(inherited), Speed::Prepaid(search), Speed::Exact]);

    let toml = good("prepaid.toml");
    assert_eq!(toml.policies().iter().map(|entry| entry.policy.speed()).collect::<Vec<_>>(), speeds[..2]);
    assert_eq!(good("quickstart.yaml").policies()[0].policy.speed(), Speed::Exact);
}

#[test]
fn a_directory_is_read_by_name_and_each_file_once() {
    let files = read_paths([samples("good")]).unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.file.as_str()).collect();
    assert!(names.len() > 10 && names.is_sorted(), "{names:?}");

    let twice = [samples("good"), samples("good").join("concurrency.yaml")];
    let problems: Problems = read_paths(twice).unwrap_err();
    assert_eq!(problems.count(), 1, "{problems}");
    assert!(problems.to_string().ends_with("concurrency.yaml: named twice; once is enough"), "{problems}");
}
