//! `tollgate serve`, `check` and `top`, as a user would type them.

use tollgate_testkit::servers::{RedisServer, http_get, wait_until};

use crate::{desk::Desk, running::Running};

fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

const RULES: &str = "domain: api\npolicies:\n  - { name: p, match: { user: \"*\" }, rules: [{ name: r, algorithm: token_bucket, limit: 2, per: 1h }] }\n";

#[test]
fn without_options_it_tells_what_to_try_next() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let greeting = server.greeting.join("\n");
    for part in ["limits in memory", "the sample rules", "curl -d", "/v1/check", "redis-cli", "dashboard"] {
        assert!(greeting.contains(part), "{part}: {greeting}");
    }
    // The line it prints is one that works.
    let line = server.greeting.iter().find(|line| line.contains("curl")).unwrap();
    let run =
        std::process::Command::new("sh").args(["-c", line.split_once("http").unwrap().1.trim()]).output().unwrap();
    let told = String::from_utf8(run.stdout).unwrap();
    assert!(told.contains("\"verdict\":\"allow\"") && told.contains("\"limit\":10"), "{told}");
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let run = desk.run(&["serve", "--http", &server.http, "--admin", "off", "--grpc", "off", "--resp", "off"]);
    assert_eq!(run.code, 2);
    assert!(
        run.complaints.contains("another program listens there") && run.complaints.contains("--http"),
        "{}",
        run.complaints
    );
}

#[test]
fn mistakes_on_the_command_line_are_told_before_anything_starts() {
    let desk = Desk::new().file("bad.yaml", RULES.replace("limit: 2", "limit: 0"));
    for (words, part) in [
        (&["--rules", "bad.yaml"][..], "limit is 0"),
        (&["--rules", "none.yaml"], "there is no such file"),
        (&["--store", "redi://x"], "--store"),
        (&["--http", "everywhere"], "127.0.0.1:8080"),
        (&["--auth-entry", "user"], "NAME:SOURCE"),
        (&["--auth-deny-status", "200"], "401, 403, 429 or 503"),
        (&["--tokens", "none"], "none: could not be read"),
        (&["--tls-cert", "none.pem", "--tls-key", "none.key"], "none.pem"),
        (&["--log", "=loud"], "--log"),
    ] {
        let run = desk.run(&[&["serve", "--admin", "0", "--grpc", "off", "--resp", "off"], words].concat());
        assert_eq!(run.code, 2, "{words:?}");
        assert!(run.complaints.contains(part), "{words:?}: {}", run.complaints);
    }
}

#[test]
fn sigterm_ends_it_in_good_order_and_sighup_reads_files_again() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let at = |server: &Running| http_get(port(&server.http), "/v1/auth?cost=0&entry=user:value:u", &[]).unwrap();
    assert!(at(&server).header("ratelimit-policy").unwrap().contains("q=2"));
    let desk = desk.file("rules.yaml", RULES.replace("limit: 2", "limit: 7"));
    server.signal("-HUP");
    let patience = std::time::Duration::from_secs(20);
    wait_until("the new rules", patience, || at(&server).header("ratelimit-policy").unwrap().contains("q=7"));
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("stopped") && log.contains("read again"), "{log}");
    drop(desk);
}

#[test]
fn flags_are_also_variables_and_secrets_stay_out_of_the_log() {
    let desk =
        Desk::new().file("token", "canary-admin-token\n").file("store", "redis://app:canary-password@127.0.0.1:1\n");
    let server = Running::start(
        &desk,
        &["--log", "debug", "--log-format", "json", "--admin-token-file", "token", "--store-file", "store"],
    );
    assert!(server.greeting.join("\n").contains("redis://app@127.0.0.1:1"));
    assert_eq!(http_get(port(&server.http), "/v1/auth", &[]).unwrap().status, 200);
    let admin = port(&server.admin);
    let state = http_get(admin, "/api/state", &[("host", "localhost")]);
    assert!(state.is_ok());
    let greeting = server.greeting.join("\n");
    server.signal("-INT");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    assert!(!log.contains("canary") && !greeting.contains("canary"), "{log}");
}

#[test]
fn check_asks_a_server_and_its_exit_code_is_the_verdict() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let url = format!("http://{}", server.http);
    let check = |words: &[&str]| desk.run(&[&["check", "api", "--server", &url], words].concat());
    let first = check(&["u"]);
    assert_eq!((first.code, &first.field("remaining")[0]), (0, &serde_json::json!(1)));
    assert_eq!(check(&["user=u"]).code, 0, "the same key by its entry");
    let denied = check(&["user=u"]);
    assert_eq!(denied.code, 1);
    assert!(denied.out.contains("\"verdict\":\"deny\""));
    let bad = check(&["u", "--cost", "99999999999999"]);
    assert_eq!(bad.code, 2);
    assert!(bad.complaints.contains("400: the cost is"), "{}", bad.complaints);
    let nobody = desk.run(&["check", "api", "u", "--server", "http://127.0.0.1:1"]);
    assert!(
        nobody.code == 2 && nobody.complaints.contains("is `tollgate serve` running there?"),
        "{}",
        nobody.complaints
    );
}

/// The server and the command name the same key on a Redis, so they count together.
#[test]
fn check_can_ask_a_store_without_a_server() {
    let redis = RedisServer::start();
    let store = format!("redis://127.0.0.1:{}", redis.port());
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml", "--store", &store]);
    let url = format!("http://{}", server.http);
    assert_eq!(desk.run(&["check", "api", "u", "--server", &url]).field("remaining")[0], 1);
    let run = desk.run(&["check", "api", "u", "--store", &store, "--rules", "rules.yaml"]);
    assert_eq!((run.code, &run.field("remaining")[0], &run.field("source")[0]), (0, &0.into(), &"store".into()));
    assert_eq!(desk.run(&["check", "api", "u", "--server", &url]).code, 1);
}

#[test]
fn top_shows_policies_and_the_keys_refused_most() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let url = format!("http://{}", server.http);
    for _ in 0..3 {
        desk.run(&["check", "api", "greedy\u{7}", "--server", &url]);
    }
    let run = desk.run(&["top", "--admin", &format!("http://{}", server.admin), "--count", "1"]);
    assert_eq!(run.code, 0, "{}", run.complaints);
    let row = run.out.lines().find(|line| line.starts_with("api/p ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["api/p", "-", "-", "2", "1", "0"]);
    assert!(run.out.contains("greedy·"), "control characters are not passed on: {}", run.out);
}
