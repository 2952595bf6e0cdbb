//! `tollgate doctor` as people and programs meet it.

use tollgate_testkit::servers::RedisServer;

use crate::desk::Desk;

#[test]
fn a_page_for_people_names_what_to_change_below_what_was_found() {
    let server = RedisServer::with().config("maxmemory-policy", "allkeys-lru").start();
    let run = Desk::new().run(&["doctor", &server.url()]);
    assert_eq!((run.code, run.complaints.as_str()), (0, ""), "a warning is no failure");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines[0], server.url());
    assert!(lines.contains(&server.address().as_str()), "{}", run.out);
    let eviction = lines.iter().position(|line| line.starts_with("  warn  eviction")).unwrap();
    assert!(lines[eviction + 1].trim_start().starts_with("→ set maxmemory-policy to noeviction"), "{}", run.out);
    assert!(lines[lines.len() - 1].starts_with("0 failures, 1 warning, "), "{}", run.out);
}

#[test]
fn a_page_for_programs_keeps_its_form() {
    let server = RedisServer::start();
    let run = Desk::new().run(&["doctor", &server.url(), "--format", "json", "--prefix", "edge"]);
    let page: serde_json::Value = serde_json::from_str(&run.out).unwrap();
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
    assert!(run.out.contains("edge:*") && !run.out.contains("tollgate:*"), "{}", run.out);
}

#[test]
fn a_failure_is_told_by_the_exit_code() {
    let primary = RedisServer::start();
    let replica = RedisServer::with().replica_of(&primary).start();
    let run = Desk::new().run(&["doctor", &replica.url()]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("fail  role"), "{}", run.out);
}

#[test]
fn an_address_that_leads_nowhere_is_told_without_its_secrets() {
    let server = RedisServer::with().password("right").start();
    let address = server.address();
    for (url, words) in [
        (format!("redis://:s3cret@{address}"), "WRONGPASS"),
        ("redis://:s3cret@127.0.0.1:1".to_owned(), "redis://127.0.0.1:1: no connection: "),
        ("http://:s3cret@127.0.0.1".to_owned(), "redis+cluster:// would do"),
        ("redis://:s3cret@127.0.0.1:x".to_owned(), "is no host and port"),
    ] {
        let run = Desk::new().run(&["doctor", &url]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{url}");
        assert!(run.complaints.contains(words) && !run.complaints.contains("s3cret"), "{}", run.complaints);
    }
}
