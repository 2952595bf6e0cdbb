//! `tollgate config`, on the samples of the repository and on files of our own.

use std::{fs, path::PathBuf};

use crate::desk::{Desk, root};

fn samples(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root().join("rules").join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 5);
    paths
}

#[test]
fn every_good_sample_passes() {
    let desk = Desk::new();
    for path in samples("good") {
        let run = desk.run(&["config", "check", path.to_str().unwrap()]);
        assert!(run.lines().len() > 1 && run.out.ends_with("1 file, no problems\n"), "{}", run.out);
    }
}

#[test]
fn every_bad_sample_fails_with_its_place() {
    let desk = Desk::new();
    for path in samples("bad") {
        let name = path.to_str().unwrap();
        let run = desk.run(&["config", "check", name]);
        assert_eq!((run.code, run.complaints.as_str()), (1, ""), "{name}");
        let lines: Vec<&str> = run.out.lines().collect();
        let (count, problems) = lines.split_last().unwrap();
        assert!(problems.iter().all(|problem| problem.starts_with(&format!("{name}:"))), "{}", run.out);
        let counted = if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
        assert_eq!(*count, counted);
    }
}

#[test]
fn a_directory_of_bad_samples_shows_the_problems_of_all() {
    let folder = root().join("rules/bad");
    let run = Desk::new().run(&["config", "check", folder.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert!(run.out.lines().count() > samples("bad").len());
}

#[test]
fn a_good_file_is_told_policy_by_policy() {
    let rules = "\
domain: api
policies:
  - name: per-user
    match: { user: \"*\", plan: free }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 100, per: 1s, burst: 200 }
      - { name: day, algorithm: fixed_window, limit: 10, per: 1d, align: calendar, utc_offset: \"+01:00\", shadow: true }
  - name: anyone
    rules:
      - { name: slots, algorithm: concurrency, limit: 3, lease: 10s }
      - { name: queue, algorithm: leaky_bucket, limit: 5, per: 1s, capacity: 9, shaped: true }
      - { name: slices, algorithm: sliding_counter, limit: 5, per: 1m }
";
    let run = Desk::new().file("rules.yaml", rules).run(&["config", "check", "rules.yaml"]);
    let lines = run.lines();
    assert!(lines[0].starts_with("rules.yaml:3: api/per-user ("), "{}", run.out);
    assert!(lines[0].contains("user=*") && lines[0].contains("plan=free"), "{}", run.out);
    assert!(
        lines[0].contains(
            "): burst token_bucket 100 per 1s, burst 200; day fixed_window 10 per 1d of the calendar, UTC+01:00, shadow"
        ),
        "{}",
        run.out
    );
    assert_eq!(
        lines[1],
        "rules.yaml:8: api/anyone (every request): slots concurrency 3 at once, lease 10s; queue leaky_bucket 5 per 1s, \
         capacity 9, shaped; slices sliding_counter 5 per 1m in 10 buckets"
    );
    assert_eq!(lines[2], "1 file, no problems");
}

#[test]
fn all_problems_are_told_with_line_column_and_field() {
    let rules = "domain: api\npolicies:\n  - name: p\n    rules:\n      - { name: r, algorithm: gcra, limit: 0, per: 1s }\n      - { name: s, algorithm: gcra, limit: 1, per: 0s }\n";
    let run = Desk::new().file("rules.yaml", rules).run(&["config", "check", "rules.yaml"]);
    assert_eq!(run.code, 1);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("rules.yaml:5:44: policies[0].rules[0].limit: limit is 0"), "{}", run.out);
    assert!(lines[1].starts_with("rules.yaml:6:52: policies[0].rules[1].per: per is 0s"), "{}", run.out);
    assert_eq!(lines[2..], ["2 problems"]);
}

#[test]
fn a_file_that_is_not_there_is_a_problem() {
    let run = Desk::new().run(&["config", "check", "none.yaml"]);
    assert_eq!((run.code, run.out.as_str()), (1, "none.yaml: there is no such file\n1 problem\n"));
}

#[test]
fn the_schema_is_the_documented_one() {
    let run = Desk::new().run(&["config", "schema"]);
    let printed: serde_json::Value = serde_json::from_str(&run.lines().join("\n")).unwrap();
    let documented = fs::read_to_string(root().join("docs/rules.schema.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<serde_json::Value>(&documented).unwrap());
}

#[test]
fn help_shows_examples_and_the_version_is_told() {
    let desk = Desk::new();
    for args in [
        &["--help"][..],
        &["simulate", "--help"],
        &["explain", "--help"],
        &["config", "check", "--help"],
        &["config", "schema", "--help"],
    ] {
        let run = desk.run(args);
        assert!(run.lines().iter().any(|line| line.starts_with("  tollgate ")), "{args:?}\n{}", run.out);
    }
    assert_eq!(desk.run(&["--version"]).lines(), [format!("tollgate {}", env!("CARGO_PKG_VERSION"))]);
}
