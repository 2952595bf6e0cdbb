//! Output and exit codes of `ratekeeper doctor`.

use ratekeeper_testkit::servers::RedisServer;

use crate::fixture::Fixture;

#[test]
fn text_has_the_change_below_the_finding() {
    let server = RedisServer::with().config("maxmemory-policy", "allkeys-lru").start();
    let run = Fixture::new().run(&["doctor", &server.url()]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "a warning is no failure");
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines[0], server.url());
    assert!(lines.contains(&server.address().as_str()), "{}", run.stdout);
    let eviction = lines.iter().position(|line| line.starts_with("  warn  eviction")).unwrap();
    assert!(lines[eviction + 1].trim_start().starts_with("→ set maxmemory-policy to noeviction"), "{}", run.stdout);
    assert!(lines[lines.len() - 1].starts_with("0 failures, 1 warning, "), "{}", run.stdout);
}

#[test]
fn json_has_stable_fields() {
    let server = RedisServer::start();
    let run = Fixture::new().run(&["doctor", &server.url(), "--format", "json", "--prefix", "edge"]);
    let page: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(page["address"], server.url());
    assert_eq!(page["worst"], "note");
    let findings = page["findings"].as_array().unwrap();
    let checks: Vec<_> = findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    let expected = [
        "version",
        "eviction",
        "persistence",
        "role",
        "rights",
        "writes",
        "scripts",
        "script-time",
        "expiry",
        "round-trip",
        "clock",
    ];
    assert_eq!(checks, expected);
    for finding in findings {
        let mut fields: Vec<_> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["change", "check", "found", "level", "node"]);
    }
    assert!(run.stdout.contains("edge:*") && !run.stdout.contains("ratekeeper:*"), "{}", run.stdout);
}

#[test]
fn a_failure_sets_the_exit_code() {
    let primary = RedisServer::start();
    let replica = RedisServer::with().replica_of(&primary).start();
    let run = Fixture::new().run(&["doctor", &replica.url()]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("fail  role"), "{}", run.stdout);
}

#[test]
fn errors_about_addresses_contain_no_secrets() {
    let server = RedisServer::with().password("right").start();
    let address = server.address();
    for (url, words) in [
        (format!("redis://:s3cret@{address}"), "WRONGPASS"),
        ("redis://:s3cret@127.0.0.1:1".to_owned(), "redis://127.0.0.1:1: no connection: "),
        ("http://:s3cret@127.0.0.1".to_owned(), "redis+cluster:// would do"),
        ("redis://:s3cret@127.0.0.1:x".to_owned(), "is no host and port"),
    ] {
        let run = Fixture::new().run(&["doctor", &url]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{url}");
        assert!(run.stderr.contains(words) && !run.stderr.contains("s3cret"), "{}", run.stderr);
    }
}
