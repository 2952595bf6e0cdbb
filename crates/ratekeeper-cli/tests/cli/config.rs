//! `ratekeeper config` on the samples of the repository and on other files.

use std::{fs, path::PathBuf};

use crate::fixture::{Fixture, root};

fn samples(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root().join("rules").join(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 5);
    paths
}

#[test]
fn every_good_sample_passes() {
    let fixture = Fixture::new();
    for path in samples("good") {
        let run = fixture.run(&["config", "check", path.to_str().unwrap()]);
        assert!(run.lines().len() > 1 && run.stdout.ends_with("1 file, no problems\n"), "{}", run.stdout);
    }
}

#[test]
fn every_bad_sample_fails_with_a_location() {
    let fixture = Fixture::new();
    for path in samples("bad") {
        let name = path.to_str().unwrap();
        let run = fixture.run(&["config", "check", name]);
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{name}");
        let lines: Vec<&str> = run.stdout.lines().collect();
        let (count, problems) = lines.split_last().unwrap();
        assert!(problems.iter().all(|problem| problem.starts_with(&format!("{name}:"))), "{}", run.stdout);
        let counted = if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
        assert_eq!(*count, counted);
    }
}

#[test]
fn a_directory_of_bad_samples_lists_all_problems() {
    let directory = root().join("rules/bad");
    let run = Fixture::new().run(&["config", "check", directory.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.lines().count() > samples("bad").len());
}

#[test]
fn a_valid_file_is_described_policy_by_policy() {
    let rules = "\
domain: api
policies:
  - name: per-user
    match: { user: \"*\", plan: free }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 100, per: 1s, burst: 200 }
      - { name: day, algorithm: fixed_window, limit: 10, per: 1d, align: calendar, utc_offset: \"+01:00\", shadow: true }
  - name: all
    rules:
      - { name: slots, algorithm: concurrency, limit: 3, lease: 10s }
      - { name: queue, algorithm: leaky_bucket, limit: 5, per: 1s, capacity: 9, shaped: true }
      - { name: slices, algorithm: sliding_counter, limit: 5, per: 1m }
";
    let run = Fixture::new().file("rules.yaml", rules).run(&["config", "check", "rules.yaml"]);
    let lines = run.lines();
    assert!(lines[0].starts_with("rules.yaml:3: api/per-user ("), "{}", run.stdout);
    assert!(lines[0].contains("user=*") && lines[0].contains("plan=free"), "{}", run.stdout);
    assert!(
        lines[0].contains(
            "): burst token_bucket 100 per 1s, burst 200; day fixed_window 10 per 1d of the calendar, UTC+01:00, shadow"
        ),
        "{}",
        run.stdout
    );
    assert_eq!(
        lines[1],
        "rules.yaml:8: api/all (every request): slots concurrency 3 at once, lease 10s; queue leaky_bucket 5 per 1s, \
         capacity 9, shaped; slices sliding_counter 5 per 1m in 10 buckets"
    );
    assert_eq!(lines[2], "1 file, no problems");
}

/// Bans, exemptions and disabled rules are part of the description.
#[test]
fn bans_exemptions_and_disabled_rules_are_described() {
    let rules = "\
domain: sb
descriptors:
  - key: banned
    rate_limit: { unit: hour, requests_per_unit: 0 }
  - key: banned
    value: gently
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 0 }
  - key: friend
    rate_limit: { unlimited: true }
  - key: quota
    quota_mode: true
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: path
    value: /api/*
    share_threshold: true
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 5 }
";
    let run = Fixture::new().file("envoy.yaml", rules).run(&["config", "check", "envoy.yaml"]);
    assert_eq!(
        run.lines(),
        [
            "envoy.yaml:3: sb/banned: refuses all",
            "envoy.yaml:5: sb/banned=gently: refuses all, shadow",
            "envoy.yaml:9: sb/friend: unlimited",
            "envoy.yaml:11: sb/quota: minute fixed_window 5 per 1m, quota_mode",
            "envoy.yaml:18: sb/path=/api/*,user: minute fixed_window 5 per 1m",
            "1 file, no problems",
        ]
    );

    let rules = "\
domain: api
policies:
  - name: u
    match: { user: \"*\" }
    rules:
      - { name: r, algorithm: gcra, limit: 5, per: 1s, enabled: false }
      - { name: s, algorithm: gcra, limit: 5, per: 1s, on_store_failure: closed }
    overrides:
      - { key: a, until: 2020-01-31T23:59:59Z, rules: [{ name: r, algorithm: gcra, limit: 9, per: 1s }] }
";
    let run = Fixture::new().file("own.yaml", rules).run(&["config", "check", "own.yaml"]);
    assert_eq!(
        run.lines(),
        [
            "own.yaml:3: api/u (user=*): s token_bucket 5 per 1s, burst 5; r token_bucket 5 per 1s, burst 5, disabled; 1 override",
            "own.yaml:9: warning: the override for \"a\" ended at 2020-01-31T23:59:59Z; remove it, or give it a later until",
            "1 file, no problems, 1 warning",
        ]
    );
}

/// The most specific pattern applies, also against a list; `config check` mentions what a list does not cover.
#[test]
fn lists_are_described_and_what_they_do_not_cover() {
    let rules = "\
domain: api
policies:
  - { name: banned, match: { user: [a, b, c, d, e, f, g] }, deny: true }
  - { name: friends, match: { user: [x, y] }, unlimited: true }
  - name: paths
    match: { user: \"*\", path: \"*\" }
    rules: [{ name: r, algorithm: gcra, limit: 5, per: 1s }]
  - { name: rest, deny: true }
";
    let run = Fixture::new().file("own.yaml", rules).run(&["config", "check", "own.yaml"]);
    let warning = |line: usize, name: &str| {
        format!(
            "own.yaml:{line}: warning: policy {name} does not apply to requests that policy \"paths\" in line 5 matches: its \
             pattern is more specific; add its entries to the pattern of {} as well",
            name.split(' ').next().unwrap()
        )
    };
    assert_eq!(
        run.lines(),
        [
            "own.yaml:3: api/banned (user=[a|b|c|d|e and 2 more]): denies every request",
            "own.yaml:4: api/friends (user=[x|y]): unlimited",
            "own.yaml:5: api/paths (user=*, path=*): r token_bucket 5 per 1s, burst 5",
            "own.yaml:8: api/rest (every request): denies every request",
            &warning(3, "\"banned\" (deny)"),
            &warning(4, "\"friends\" (unlimited)"),
            "1 file, no problems, 2 warnings",
        ]
    );
}

/// envoyproxy/ratelimit accepts both silently, so they are warnings and not errors.
#[test]
fn unknown_names_are_warnings() {
    let rules = "\
domain: edge
descriptors:
  - key: a
    rate_limit: { unit: hour, requests_per_unit: 1, name: hourly }
  - key: b
    rate_limit: { unit: hour, requests_per_unit: 1, replaces: [{ name: hourly }, { name: houry }] }
";
    let fixture = Fixture::new().file("edge.yaml", rules);
    let run = fixture.run(&["config", "check", "edge.yaml"]);
    assert_eq!(
        run.lines()[2..],
        [
            "edge.yaml:5: warning: replaces \"houry\", but no limit of this file has that name",
            "1 file, no problems, 1 warning"
        ]
    );
}

#[test]
fn subdirectories_with_rule_files_are_warnings() {
    let fixture = Fixture::with_rules(&["name: r, algorithm: gcra, limit: 5, per: 1s"]);
    fs::create_dir_all(fixture.path("all/inner")).unwrap();
    fs::create_dir_all(fixture.path("all/empty")).unwrap();
    fs::copy(fixture.path("rules.yaml"), fixture.path("all/a.yaml")).unwrap();
    fs::copy(fixture.path("rules.yaml"), fixture.path("all/inner/b.yaml")).unwrap();
    let run = fixture.run(&["config", "check", "all"]);
    let warning = "all/inner: warning: rule files in a directory inside a directory are not read; name it, too";
    assert_eq!(run.lines()[1..], [warning, "1 file, no problems, 1 warning"]);
}

#[test]
fn standard_input_is_checked() {
    let fixture = Fixture::with_rules(&["name: r, algorithm: gcra, limit: 5, per: 1s"]);
    let text = fixture.read("rules.yaml");
    let run = fixture.run_with(&["config", "check", "-"], text.as_bytes());
    assert_eq!(run.lines()[0], "standard input:3: test/per-user (user=*): r token_bucket 5 per 1s, burst 5");
    let run = fixture.run_with(&["config", "check", "-"], text.replace("limit: 5", "limit: 0").as_bytes());
    assert!(run.code == 1 && run.stdout.starts_with("standard input:6:"), "{}", run.stdout);
    let run = fixture.run_with(&["config", "check", "-", "rules.yaml"], text.as_bytes());
    assert!(run.code == 2 && run.stderr.contains("- cannot be combined"), "{}", run.stderr);
}

/// Several files of one domain form one set of rules.
#[test]
fn a_domain_may_be_spread_over_files() {
    let rules = |name: &str| {
        format!(
            "domain: api\npolicies:\n  - {{ name: {name}, match: {{ {name}: \"*\" }}, rules: [{{ name: r, algorithm: gcra, limit: 5, per: 1s }}] }}\n"
        )
    };
    let fixture = Fixture::new().file("a.yaml", rules("one")).file("b.yaml", rules("two")).file("c.yaml", rules("one"));
    let run = fixture.run(&["config", "check", "a.yaml", "b.yaml"]);
    assert_eq!(run.lines().len(), 3);
    let run = fixture.run(&["config", "check", "a.yaml", "b.yaml", "c.yaml"]);
    let printed =
        "c.yaml:3:5: policies[0].name: name is \"one\", which the policy in a.yaml:3 has already; give each its own";
    assert_eq!((run.code, run.stdout), (1, format!("{printed}\n1 problem\n")));
}

#[test]
fn all_problems_have_line_column_and_field() {
    let rules = "domain: api\npolicies:\n  - name: p\n    rules:\n      - { name: r, algorithm: gcra, limit: 0, per: 1s }\n      - { name: s, algorithm: gcra, limit: 1, per: 0s }\n";
    let run = Fixture::new().file("rules.yaml", rules).run(&["config", "check", "rules.yaml"]);
    assert_eq!(run.code, 1);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("rules.yaml:5:44: policies[0].rules[0].limit: limit is 0"), "{}", run.stdout);
    assert!(lines[1].starts_with("rules.yaml:6:52: policies[0].rules[1].per: per is 0s"), "{}", run.stdout);
    assert_eq!(lines[2..], ["2 problems"]);
}

#[test]
fn a_missing_file_is_a_problem() {
    let run = Fixture::new().run(&["config", "check", "none.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, "none.yaml: there is no such file\n1 problem\n"));
}

#[test]
fn the_schema_is_the_documented_one() {
    let run = Fixture::new().run(&["config", "schema"]);
    let printed: serde_json::Value = serde_json::from_str(&run.lines().join("\n")).unwrap();
    let documented = fs::read_to_string(root().join("docs/rules.schema.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<serde_json::Value>(&documented).unwrap());
}

#[test]
fn help_has_examples_and_version_is_printed() {
    let fixture = Fixture::new();
    for args in [
        &["--help"][..],
        &["simulate", "--help"],
        &["explain", "--help"],
        &["config", "check", "--help"],
        &["config", "schema", "--help"],
    ] {
        let run = fixture.run(args);
        assert!(run.lines().iter().any(|line| line.starts_with("  ratekeeper ")), "{args:?}\n{}", run.stdout);
    }
    let version = format!("ratekeeper {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(fixture.run(&["-V"]).lines(), std::slice::from_ref(&version));
    let long = fixture.run(&["--version"]);
    let (lines, commit) = (long.lines(), option_env!("RATEKEEPER_COMMIT").unwrap_or("unknown"));
    assert_eq!(lines[..2], [version, format!("commit: {commit}")]);
    assert!(lines[2].starts_with("features: ") && lines[3].starts_with("target: "), "{lines:?}");
}

/// `speed: prepaid` is shown with its turn; where it has little or no effect, there is a warning.
#[test]
fn the_speed_of_a_policy_is_described() {
    let rules = "\
domain: api
defaults: { speed: prepaid }
policies:
  - name: busy
    match: { user: \"*\" }
    rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s, burst: 200 }]
    overrides:
      - { key: held, rules: [{ name: slots, algorithm: concurrency, limit: 3, lease: 10s }] }
  - name: exact
    match: { a: \"*\" }
    speed: exact
    rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s, burst: 200 }]
  - name: leases
    match: { b: \"*\" }
    rules: [{ name: slots, algorithm: concurrency, limit: 3, lease: 10s }]
  - name: small
    match: { c: \"*\" }
    rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s, burst: 12 }]
  - name: smaller
    match: { d: \"*\" }
    rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s, burst: 3 }]
  - name: short
    match: { e: \"*\" }
    rules: [{ name: window, algorithm: fixed_window, limit: 1000, per: 60ms }]
  - name: often
    match: { f: \"*\" }
    allotments: { turn: 2ms }
    rules: [{ name: window, algorithm: sliding_log, limit: 1000, per: 10s }]
  - name: watching
    match: { g: \"*\" }
    rules: [{ name: window, algorithm: sliding_log, limit: 1000, per: 10s, shadow: true }]
";
    let run = Fixture::new().file("rules.yaml", rules).run(&["config", "check", "rules.yaml"]);
    let ends = [
        "; prepaid, turn 50ms; 1 override",
        ", burst 200",
        ", lease 10s",
        ", burst 12; prepaid, turn 3ms",
        ", burst 3",
        " per 60ms; prepaid, turn 3ms",
        "; prepaid, turn 2ms",
        ", shadow",
    ];
    let lines = run.lines();
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(end), "{line} does not end in {end}");
    }
    let exact = "it is decided exactly; write `speed: exact` to confirm";
    assert_eq!(
        lines[ends.len()..],
        [
            "rules.yaml:8: warning: the override for \"held\": rule \"slots\" cannot be prepaid (a concurrency rule has leases, not permits), so it is decided exactly".to_owned(),
            format!("rules.yaml:13: warning: policy \"leases\": rule \"slots\" cannot be prepaid (a concurrency rule has leases, not permits), so {exact}"),
            "rules.yaml:16: warning: policy \"small\": the burst of rule \"burst\" is too small to gain much: its turn is 3ms, below 5ms; use a larger burst, or `speed: exact`".to_owned(),
            format!("rules.yaml:19: warning: policy \"smaller\": the burst of rule \"burst\" is too small to gain: its turn is 750us, below 1ms, so {exact}"),
            "rules.yaml:22: warning: policy \"short\": the window of rule \"window\" is too short to gain much: its turn is 3ms, below 5ms; use a longer period, or `speed: exact`".to_owned(),
            "rules.yaml:25: warning: policy \"often\": turns of 2ms gain little: a busy key calls the store in each; use 5ms or more".to_owned(),
            format!("rules.yaml:29: warning: policy \"watching\": no rule is enforced, so {exact}"),
            "1 file, no problems, 7 warnings".to_owned(),
        ]
    );
}

/// Limits of Envoy's format count refused requests, unless the server is started without that.
#[test]
fn prepaid_in_envoys_format_names_the_flag() {
    let rules = "\
domain: edge
descriptors:
  - { key: a, rate_limit: { unit: second, requests_per_unit: 5000, speed: prepaid } }
";
    let run = Fixture::new().file("edge.yaml", rules).run(&["config", "check", "edge.yaml"]);
    let warning = "edge.yaml:3: warning: limit \"a\": refused requests have to reach the store to be counted, so it is \
                   decided exactly; start the server with `--envoy-all-or-none`";
    let expected = ["edge.yaml:3: edge/a: second fixed_window 5000 per 1s", warning, "1 file, no problems, 1 warning"];
    assert_eq!(run.lines(), expected);
}
