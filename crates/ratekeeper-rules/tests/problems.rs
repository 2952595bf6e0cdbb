//! Reports of problems: all of them, in order, each with its location.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may say what they expect, too")]

use std::{fs, path::PathBuf};

use ratekeeper_core::{Prepaid, Span, Speed};
use ratekeeper_rules::{Format, MAX_FILE_BYTES, Problems, RuleFile, read_path, read_paths, read_str};

fn problems(text: &str) -> Vec<String> {
    let problems = read_str("api.yaml", text, Format::Yaml).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// A temporary directory for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ratekeeper-rules-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SOUND: &str = "domain: api\npolicies: [{ name: p, rules: [{ name: r, algorithm: gcra, limit: 5, per: 1s }] }]\n";

#[test]
fn one_bad_rule_hides_no_other() {
    let printed = problems(
        "domain: ''\npolicies:\n  - name: one\n    rules:\n      - { name: a, algorithm: gcra, limit: 0, per: 1s, brust: 5 }\n      \
         - { name: b, algorithm: gcra, limit: many, per: 60, burst: -1 }\n      - 7\n  - name: one\n    cost: 0\n    \
         match: { user: '*' }\n    rules: []\n",
    );
    let expected = [
        "api.yaml:1:9: domain: domain is empty, so nothing could refer to it; use 1 to 128 bytes of printable text",
        "api.yaml:5:44: policies[0].rules[0].limit: limit is 0, which refuses every request; use 1 or more, or leave the rule out to admit every request",
        "api.yaml:5:56: policies[0].rules[0].brust: there is no field `brust`; did you mean `burst`?",
        "api.yaml:6:44: policies[0].rules[1].limit: limit is \"many\", which is text; use a whole number in digits, such as 100",
        "api.yaml:6:55: policies[0].rules[1].per: per is 60, a number without a unit; say which one, such as 60s for seconds or 60ms for milliseconds",
        "api.yaml:6:66: policies[0].rules[1].burst: burst is -1, below zero; use a whole number in digits, such as 100",
        "api.yaml:7:9: policies[0].rules[2]: this item is 7, a number; use a mapping of fields",
        "api.yaml:8:11: policies[1].name: name is \"one\", which the policy in line 3 has already; give each its own",
        "api.yaml:9:11: policies[1].cost: cost is 0, so nothing would ever be counted; use 1 or more",
        "api.yaml:11:12: policies[1].rules: the policy has no rules; add one, or leave the policy out to admit everything",
    ];
    assert_eq!(printed, expected);
}

#[test]
fn a_field_of_the_wrong_kind_is_not_missing_as_well() {
    assert_eq!(problems("domain: [api]\npolicies: 5\n").len(), 2);
    assert_eq!(problems("domain: api\npolicies: [{ nam: p, rules: {} }]\n").len(), 2);
}

#[test]
fn an_unknown_field_may_hold_one_of_its_own_name() {
    assert_eq!(problems(&format!("{SOUND}x: {{ x: 1 }}\n")).len(), 1);
    assert_eq!(problems(&format!("{SOUND}\"a`, expected `b\": 1\n")).len(), 1);
}

#[test]
fn the_list_of_problems_ends() {
    let mut text = SOUND.to_owned();
    for number in 0..1_000 {
        text.push_str(&format!("x{number}: 1\n"));
    }
    let printed = problems(&text);
    assert_eq!(printed.len(), 201);
    assert!(printed.iter().any(|printed| printed.contains("more than 200 mistakes")));
}

#[test]
fn a_byte_order_mark_and_windows_lines_are_no_mistake() {
    let text = format!("\u{feff}{}", SOUND.replace('\n', "\r\n"));
    read_str("api.yaml", &text, Format::Yaml).unwrap();
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let folder = Folder::new("unreadable");
    let printed = |path: PathBuf| read_path(path).unwrap_err().to_string();
    assert!(printed(folder.0.join("none.yaml")).ends_with("none.yaml: there is no such file"));
    assert!(printed(folder.file("rules.ini", SOUND)).contains(".yaml, .yml, .toml or .json"));
    assert!(printed(folder.file("rules", SOUND)).contains(".yaml, .yml, .toml or .json"));
    assert!(printed(folder.file("big.yaml", vec![b'#'; MAX_FILE_BYTES + 1])).contains("larger than 8388608 bytes"));
    assert!(printed(folder.file("full.yaml", vec![b'#'; MAX_FILE_BYTES])).contains("the file is empty"));
    assert!(
        printed(folder.file("binary.yaml", b"domain: api\nx: \xc3\x28\n")).contains(":2:4: the byte 0xc3 is not UTF-8")
    );
    fs::create_dir(folder.0.join("folder.yaml")).unwrap();
    assert!(printed(folder.0.join("folder.yaml")).contains("directory"));
    std::os::unix::fs::symlink("none.yaml", folder.0.join("link.yaml")).unwrap();
    assert!(printed(folder.0.join("link.yaml")).ends_with("link.yaml: there is no such file"));
}

/// Opening a pipe without a writer would block for ever, and with it the reload.
#[test]
fn what_is_no_file_is_named_and_never_opened() {
    let folder = Folder::new("kinds");
    let pipe = folder.0.join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let printed = |path: &PathBuf| read_path(path).unwrap_err().to_string();
    assert!(
        printed(&pipe).ends_with("pipe.yaml: it is a named pipe; rules are read from regular files"),
        "{}",
        printed(&pipe)
    );
    let link = folder.0.join("device.yaml");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    assert!(printed(&link).ends_with("device.yaml: it is a device; rules are read from regular files"));
    let socket = folder.0.join("socket.yaml");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(printed(&socket).ends_with("socket.yaml: it is a socket; rules are read from regular files"));
    drop(listener);

    // In a directory they are a mistake as well: a name that ends in .yaml is meant to be read.
    folder.file("sound.yaml", SOUND);
    let problems = read_paths([&folder.0]).unwrap_err();
    assert_eq!(problems.count(), 3, "{problems}");
}

#[test]
fn directories_are_read_without_what_is_not_meant() {
    let folder = Folder::new("directory");
    let empty: Problems = read_paths([&folder.0]).unwrap_err();
    assert!(empty.to_string().contains("no rule files"));
    folder.file("b.yml", SOUND.replace("api", "b"));
    folder.file("a.yaml", SOUND.replace("api", "a"));
    folder.file(".hidden.yaml", "broken: [");
    folder.file("notes.txt", "broken: [");
    fs::create_dir(folder.0.join("more.yaml")).unwrap();
    let domains: Vec<String> = read_paths([&folder.0]).unwrap().into_iter().map(|file| file.domain).collect();
    assert_eq!(domains, ["a", "b"]);

    folder.file("c.yaml", SOUND.replace("api", "a"));
    folder.file("d.yaml", "domain: d\n");
    let printed: Vec<String> = read_paths([&folder.0]).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert!(
        printed[0].contains("c.yaml:2:12: policies[0].name: name is \"p\", which the policy in "),
        "{}",
        printed[0]
    );
    assert!(printed[0].contains("a.yaml:2 has already"), "{}", printed[0]);
    assert!(printed[1].contains("d.yaml:1:1: policies: the file has no policies"));
}

fn policy(name: &str, pattern: &str) -> String {
    format!(
        "domain: api\npolicies:\n  - name: {name}\n    match: {{ {pattern} }}\n    rules: [{{ name: r, algorithm: gcra, limit: 5, per: 1s }}]\n"
    )
}

#[test]
fn a_domain_may_have_several_files_of_our_own_form() {
    let folder = Folder::new("shared");
    folder.file("a.yaml", policy("one", "user: '*'"));
    folder.file("b.yaml", policy("two", "user: vip"));
    folder.file("c.yaml", policy("three", "user: '*', path: /x"));
    let files = read_paths([&folder.0]).unwrap();
    let names: Vec<&str> = files.iter().flat_map(RuleFile::policies).map(|entry| entry.policy.name()).collect();
    assert_eq!(names, ["one", "two", "three"]);

    folder.file("d.yaml", policy("one", "ip: '*'"));
    folder.file("e.yaml", policy("five", "path: /x, user: '*'"));
    let printed: Vec<String> = read_paths([&folder.0]).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(printed.len(), 2, "{printed:?}");
    let (a, c) = (folder.0.join("a.yaml"), folder.0.join("c.yaml"));
    let has_name = format!("name is \"one\", which the policy in {}:3 has already; give each its own", a.display());
    assert!(printed[0].ends_with(&format!("d.yaml:3:5: policies[0].name: {has_name}")), "{}", printed[0]);
    let same =
        format!("the same pattern as the policy in {}:3, so neither could win; change one, or join them", c.display());
    assert!(printed[1].ends_with(&format!("e.yaml:3:5: policies[0].match: {same}")), "{}", printed[1]);
}

#[test]
fn a_file_named_twice_is_one_mistake() {
    let folder = Folder::new("twice");
    let file = folder.file("a.yaml", policy("one", "user: '*'"));
    let printed = read_paths([&file, &file]).unwrap_err().to_string();
    assert!(printed.ends_with("a.yaml: named twice; once is enough"), "{printed}");
}

#[test]
fn the_other_form_has_its_domain_to_itself() {
    let folder = Folder::new("to-itself");
    let envoy = "domain: api\ndescriptors: [{ key: a, rate_limit: { unit: hour, requests_per_unit: 1 } }]\n";
    for (first, second) in [(envoy, envoy), (envoy, SOUND), (SOUND, envoy)] {
        folder.file("a.yaml", first);
        folder.file("b.yaml", second);
        let printed = read_paths([&folder.0]).unwrap_err().to_string();
        let a = folder.0.join("a.yaml");
        let expected = format!(
            "b.yaml:1:1: domain: domain \"api\" is described in {} already; descriptors stand in one file for each domain, without policies",
            a.display()
        );
        assert!(printed.ends_with(&expected), "{printed}");
    }
}

/// `match` is a property of a domain: its files agree on it, and the bound on policies is for all of them together.
#[test]
fn the_files_of_a_domain_have_one_match_mode() {
    let folder = Folder::new("match-mode");
    let policy = |number: usize| {
        format!(
            "  - {{ name: p{number}, match: {{ e{number}: \"*\" }}, rules: [{{ name: r, algorithm: gcra, limit: 5, per: 1s }}] }}\n"
        )
    };
    let text = |mode: &str, numbers: std::ops::Range<usize>| {
        format!("domain: api\n{mode}policies:\n{}", numbers.map(policy).collect::<String>())
    };
    let expect = |second: String, message: &str| {
        folder.file("a.yaml", text("match: all\n", 0..20));
        folder.file("b.yaml", &second);
        let printed = read_paths([&folder.0]).unwrap_err().to_string();
        assert!(printed.contains("b.yaml:1:1: match: ") && printed.contains(message), "{printed}");
    };
    expect(text("", 20..21), "match is best, but ");
    expect(text("match: all\n", 20..33), "the domain has 33 policies; 32 is the most");
    folder.file("b.yaml", text("match: all\n", 20..32));
    assert!(read_paths([&folder.0]).is_ok());
}

/// A directory of customers: what a file may hold is enough for ten thousand policies or a hundred thousand overrides.
#[test]
fn files_may_be_large() {
    let mut policies = "domain: api\npolicies:\n".to_owned();
    for number in 0..10_000 {
        policies.push_str(&format!(
            "  - {{ name: p{number}, match: {{ user: \"{number}\" }}, rules: [{{ name: r, algorithm: token_bucket, limit: 10, per: 1s }}] }}\n"
        ));
    }
    assert_eq!(read_str("big.yaml", &policies, Format::Yaml).unwrap().policies().len(), 10_000);
}

/// However many mistakes there are, the report stays readable.
#[test]
fn problems_of_meaning_end_too() {
    let mut text = "domain: api\npolicies:\n".to_owned();
    for number in 0..3_000 {
        text.push_str(&format!("  - {{ name: p{number}, match: {{ user: u{number} }}, cost: 0, rules: [{{ name: r, algorithm: gcra, limit: 5, per: 1s }}] }}\n"));
    }
    let printed = problems(&text);
    assert_eq!(printed.len(), 1_001);
    assert_eq!(printed[1_000], "api.yaml:1002:48: 2000 more problems, which are not shown; mend these first");
}

/// Inherited by a policy that cannot be prepaid, `speed: prepaid` has no effect; written there, it is a problem. Defaults
/// may have numbers for policies that set the speed themselves.
#[test]
fn an_inherited_speed_passes_through() {
    let text = "domain: api\ndefaults: { speed: prepaid, allotments: { turn: 50ms } }\npolicies:\n  - name: p\n    \
                rules: [{ name: r, algorithm: concurrency, limit: 5, lease: 1m }]\n";
    let file = read_str("api.yaml", text, Format::Yaml).unwrap();
    let policy = &file.policies()[0].policy;
    assert!(policy.speed() != Speed::Exact && policy.prepaid().is_none());
    let own = text.replace("speed: prepaid, ", "").replace("- name: p", "- name: p\n    speed: prepaid");
    let expected = "api.yaml:5:12: policies[0].speed: speed is prepaid, but rule \"r\" cannot be: a concurrency rule has \
                    leases, not permits; use exact, or move the rule to another policy";
    assert_eq!(problems(&own), [expected]);
    let bucket = own.replace("concurrency, limit: 5, lease: 1m", "gcra, limit: 500, per: 1s");
    let file = read_str("api.yaml", &bucket, Format::Yaml).unwrap();
    assert_eq!(file.policies()[0].policy.prepaid(), Some(Prepaid::new().turn(Span::from_millis(50))));
}

/// A misspelt speed does not make the numbers next to it a second problem, and a rule with a problem hides none of speed.
#[test]
fn each_problem_of_speed_is_reported_once() {
    let rule = "rules: [{ name: r, algorithm: gcra, limit: 0, per: 1s }]";
    let printed = problems(&format!(
        "domain: api\ndefaults: {{ speed: fast, allotments: {{ turn: 1h }} }}\npolicies:\n  - name: p\n    speed: 5\n    \
         allotments: {{ hot: fast, turn: 1mo, hold: 1us, remember: 51ms }}\n    {rule}\n"
    ));
    let expected = [
        "api.yaml:2:20: defaults.speed: speed is \"fast\"; use exact or prepaid",
        "api.yaml:2:46: defaults.allotments.turn: turn is 1h; use 1ms to 1s",
        "api.yaml:5:12: policies[0].speed: speed is 5; use exact or prepaid",
        "api.yaml:6:24: policies[0].allotments.hot: hot is \"fast\", which is no rate; use permits per second, such as 100/s",
        "api.yaml:6:36: policies[0].allotments.turn: turn is 1mo; use 1ms to 1s",
        "api.yaml:6:47: policies[0].allotments.hold: hold is 1us; use 200ms, two turns, to 1m",
        "api.yaml:6:62: policies[0].allotments.remember: remember is 51ms; use 0s to 50ms",
        "api.yaml:7:48: policies[0].rules[0].limit: limit is 0, which refuses every request; use 1 or more, or leave the rule out to admit every request",
    ];
    assert_eq!(printed, expected);
}

#[test]
fn all_invalid_numbers_of_a_rule_are_reported() {
    let text = "domain: api\npolicies:\n  - name: p\n    rules:\n      - name: r\n        algorithm: token_bucket\n        \
                limit: 0\n        per: 1\n        burst: 0\n";
    let problems = read_str("two.yaml", text, Format::Yaml).unwrap_err();
    let fields: Vec<(usize, &str)> =
        problems.iter().map(|problem| (problem.line, problem.field.rsplit('.').next().unwrap())).collect();
    assert_eq!(fields, [(7, "limit"), (8, "per"), (9, "burst")]);
}
