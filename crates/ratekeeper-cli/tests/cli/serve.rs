//! `ratekeeper serve`: start-up message, flags, variables and rule files.

use std::{
    fs,
    process::{Command, Stdio},
};

use ratekeeper_testkit::servers::{Part, RedisServer, require, wait_until};
use serde_json::Value;

use crate::{
    fixture::Fixture,
    server_process::{ServerProcess, TIMEOUT},
};

/// Two requests an hour per user.
pub(crate) const RULES: &str = "domain: api\npolicies:\n  - { name: p, match: { user: \"*\" }, rules: [{ name: r, algorithm: token_bucket, limit: 2, per: 1h }] }\n";

/// Free ports for all wires, by variables.
pub(crate) const FREE: [(&str, &str); 4] =
    [("RATEKEEPER_HTTP", "0"), ("RATEKEEPER_GRPC", "0"), ("RATEKEEPER_RESP", "0"), ("RATEKEEPER_ADMIN", "0")];

fn shell(line: &str) -> Vec<u8> {
    let run = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

#[test]
fn without_arguments_every_wire_answers_and_the_printed_commands_work() {
    let (_, _) = (require(Part::Curl), require(Part::RedisCli));
    let fixture = Fixture::new();
    let server = ServerProcess::launch(&fixture, &["serve"], &FREE);
    let first = server.greeting.lines().next().unwrap();
    assert!(first.contains("limits in memory") && first.contains("the sample rules: 4 policies (api)"), "{first}");
    assert!(server.line("rules").contains("ratekeeper serve --rules FILE|DIR"));

    // The printed commands work.
    let printed: Value = serde_json::from_slice(&shell(server.line("http"))).unwrap();
    assert_eq!((&printed["verdict"], &printed["limit"]), (&"allow".into(), &10.into()));
    let printed = shell(server.line("resp"));
    assert_eq!(String::from_utf8(printed).unwrap(), "0\n16\n15\n-1\n2\n", "as redis-cell answers");
    assert_eq!(server.ask_admin("/healthz").body, "alive\n");
    assert!(server.ask_admin("/").body.contains("<title>"));

    // RateLimitRequest { domain: "api", descriptors: [{ entries: [{ key: "user", value: "42" }] }] }, after the gRPC frame header.
    let fixture = fixture.file("request", b"\0\0\0\0\x13\x0a\x03api\x12\x0c\x0a\x0a\x0a\x04user\x12\x0242".as_slice());
    let call = |method: &str, body: &str| {
        shell(&format!(
            "curl -s --http2-prior-knowledge -H 'content-type: application/grpc' -H 'te: trailers' \
             --data-binary {body} http://{}/{method}",
            server.grpc()
        ))
    };
    let body = format!("@{}", fixture.path("request").display());
    let printed = call("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &body);
    assert_eq!(printed[5..7], [8, 1], "overall_code: OK in {printed:?}");
}

/// Reported before any port is served, with the flag to change.
#[test]
fn a_port_in_use_is_an_error_with_a_remedy() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    let taken = ["--http", server.http()];
    let run = fixture.run(&[&["serve", "--admin", "off", "--grpc", "off", "--resp", "off"], &taken[..]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    for part in [server.http(), "another program listens there", "--http"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn errors_on_the_command_line_are_reported_before_the_start() {
    let fixture = Fixture::new().file("bad.yaml", RULES.replace("limit: 2", "limit: 0"));
    for (words, part) in [
        (&["--rules", "bad.yaml"][..], "limit is 0"),
        (&["--rules", "none.yaml"], "there is no such file"),
        (&["--store", "redi://x"], "--store"),
        (&["--prefix", ""], "--prefix <PREFIX>': empty, so keys would have no name before the colon"),
        (&["--http", "everywhere"], "127.0.0.1:8080"),
        (&["--auth-entry", "user"], "NAME:SOURCE"),
        (&["--auth-deny-status", "200"], "401, 403, 429 or 503"),
        (&["--max-connections", "0"], "1..="),
        (&["--nodes", "0"], "1..="),
        (&["--auth-proxies", "33"], "0..=32"),
        (&["--tokens", "none"], "none: could not be read"),
        (&["--tls-cert", "none.pem", "--tls-key", "none.key"], "none.pem"),
        (&["--log", "=loud"], "--log"),
        (&["--store", "memory", "--store-file", "none"], "cannot be used with"),
    ] {
        let run = fixture.run(&[&["serve", "--admin", "0", "--grpc", "off", "--resp", "off"], words].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}");
        assert!(run.stderr.contains(part), "{words:?}: {}", run.stderr);
    }
    let run = fixture.run(&["serve", "--http", "off", "--admin", "off", "--grpc", "off", "--resp", "off"]);
    assert!(run.code == 2 && run.stderr.contains("every port is off"), "{}", run.stderr);
}

/// An empty secret must not disable the check.
#[test]
fn an_empty_admin_token_is_refused() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["serve", "--http", "0", "--grpc", "off", "--resp", "off"]);
    let run = command.env("RATEKEEPER_ADMIN_TOKEN", "").output().unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(2) && stderr.contains("RATEKEEPER_ADMIN_TOKEN is empty or not text"), "{stderr}");
}

/// Limits in Envoy's format count refused requests, unless the flag or the variable disables it.
#[test]
fn limits_in_envoys_format_charge_all_or_none_with_the_flag() {
    let rules = "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 10 } }]\n";
    let fixture = Fixture::new().file("edge.yaml", rules);
    let left = |words: &[&str], variables: &[(&str, &str)]| {
        let words = [&["serve", "--rules", "edge.yaml"], words].concat();
        let server = ServerProcess::launch(&fixture, &words, &[&FREE, variables].concat());
        let ask = |cost: u64| {
            let body = format!(r#"{{"domain":"edge","descriptor":{{"user":"ann"}},"cost":{cost}}}"#);
            let printed = shell(&format!("curl -s -d '{body}' http://{}/v1/check", server.http()));
            serde_json::from_slice::<Value>(&printed).unwrap()
        };
        assert_eq!(ask(6)["verdict"], "allow");
        let refused = ask(6);
        assert_eq!(refused["verdict"], "deny");
        (refused["remaining"].as_u64().unwrap(), ask(0)["verdict"].as_str().unwrap().to_owned())
    };
    const THEIRS: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    assert_eq!(left(&[], &[]), (0, "deny".into()));
    assert_eq!(left(&["--envoy-all-or-none"], &[]), (4, "allow".into()));
    assert_eq!(left(&[], &[(THEIRS, "true")]), (4, "allow".into()));
    assert_eq!(left(&[], &[(THEIRS, "0")]), (0, "deny".into()));
    let mut command = fixture.command(&["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off"]);
    let run = command.env(THEIRS, "maybe").output().unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(2) && stderr.contains("is neither true nor false"), "{stderr}");
}

#[test]
fn every_flag_has_a_variable_named_after_it() {
    let help = Fixture::new().run(&["serve", "--help"]).stdout;
    let mut flags = 0;
    // The help of one option, up to the next.
    for option in help.split("\n      --").skip(1).filter(|option| !option.starts_with("help")) {
        let name = option.split([' ', '\n']).next().unwrap();
        let variable = format!("[env: RATEKEEPER_{}", name.to_uppercase().replace('-', "_"));
        assert!(option.contains(&variable), "--{option}");
        flags += 1;
    }
    assert!(flags >= 28, "only {flags} flags were found in {help}");
}

#[test]
fn flags_take_precedence_over_variables() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let variables = [
        ("RATEKEEPER_RULES", "rules.yaml"),
        ("RATEKEEPER_HEADERS", "x-ratelimit"),
        ("RATEKEEPER_AUTH_ENTRY", "user:header:x-user"),
        ("RATEKEEPER_AUTH_DENY_STATUS", "403"),
        ("RATEKEEPER_ADMIN_TOKEN", "canary-0123456789abcdef"),
        ("RATEKEEPER_ADMIN_TLS", "no"),
        ("RATEKEEPER_RESP", "off"),
    ];
    let variables = [&FREE[..2], &FREE[3..], &variables].concat();
    let server = ServerProcess::launch(&fixture, &["serve", "--auth-deny-status", "401"], &variables);
    assert!(!server.greeting.contains("resp"), "{}", server.greeting);
    let reply = server.ask("/v1/auth?cost=2");
    assert_eq!(reply.status, 200, "no entry, so no policy applies: {reply:?}");
    let ask = || {
        ratekeeper_testkit::servers::http_get(
            crate::server_process::port(server.http()),
            "/v1/auth?cost=2",
            &[("x-user", "u")],
        )
    };
    assert_eq!(ask().unwrap().header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(ask().unwrap().status, 401, "the flag's status, not the variable's");
    assert_eq!(server.ask_admin("/metrics").status, 401, "it wants the token");
}

#[test]
fn rules_come_from_files_and_directories() {
    let fixture = Fixture::new().file("one.yaml", RULES);
    fs::create_dir(fixture.path("more")).unwrap();
    let fixture = fixture.file("more/two.yaml", RULES.replace("api", "two")).file("more/notes.txt", "no rules");
    let server = ServerProcess::start(&fixture, &["--rules", "one.yaml", "--rules", "more"]);
    let first = server.greeting.lines().next().unwrap();
    assert!(first.ends_with("one.yaml, more: 2 policies (api, two)"), "{first}");
    // A new file in the directory is found.
    let fixture = fixture.file("more/three.yaml", RULES.replace("api", "three"));
    let source = |domain: &str| {
        let reply = server.ask(&format!("/v1/auth?domain={domain}&entry=user:value:u&cost=0"));
        reply.header("ratelimit-policy").is_some()
    };
    assert!(source("api") && source("two"));
    wait_until("the third file", TIMEOUT, || source("three"));
    drop(fixture);
}

/// All files of a domain decide together; of equally specific policies, that of the first file applies.
#[test]
fn files_of_one_domain_decide_together() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("rules")).unwrap();
    let rules = |name: &str, pattern: &str| {
        // The header fields contain the rule's name.
        let named = RULES.replace("name: p", &format!("name: {name}")).replace("name: r", &format!("name: {name}"));
        named.replace("user: \"*\"", pattern)
    };
    let fixture = fixture
        .file("rules/c.yaml", rules("by-both", "user: \"*\", path: \"*\""))
        .file("rules/b.yaml", rules("by-path", "path: \"*\""))
        .file("rules/a.yaml", rules("by-user", "user: \"*\""))
        .file("rules/d.yaml", rules("by-ip", "ip: \"*\""));
    let server = ServerProcess::start(&fixture, &["--rules", "rules"]);
    let first = server.greeting.lines().next().unwrap();
    assert!(first.ends_with("rules: 4 policies (api)"), "{first}");
    let decided_by = |entries: &str| {
        let entries: String = entries.split(' ').map(|name| format!("&entry={name}:value:x")).collect();
        let reply = server.ask(&format!("/v1/auth?domain=api&cost=0{entries}"));
        reply.header("ratelimit-policy").unwrap().to_owned()
    };
    for (entries, policy) in
        [("user", "by-user"), ("path", "by-path"), ("user path", "by-both"), ("ip path", "by-path")]
    {
        assert!(decided_by(entries).contains(policy), "{entries}: {}", decided_by(entries));
    }
}

#[test]
fn the_log_can_be_json() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &["--log-format", "json"]);
    assert_eq!(server.ask("/v1/auth?domain=unknown").status, 200);
    let greeting: Value = serde_json::from_str(&server.printed()).unwrap();
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The start-up message and the log have the same format of times, so that a collector can sort both.
    let form = |line: &Value| line["timestamp"].as_str().unwrap().replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(form(&greeting), "0000-00-00T00:00:00.000000Z");
    assert_eq!(form(&greeting), form(&lines[0]));
    for line in lines.iter().chain([&greeting]) {
        for field in ["timestamp", "level", "message"] {
            assert!(line[field].is_string(), "{field} in {line}");
        }
    }
    let reported: Vec<_> = lines.iter().filter(|line| line["domain"] == "unknown").collect();
    assert_eq!(reported.len(), 1, "{log}");
    assert_eq!(reported[0]["level"], "WARN");
    assert_eq!(lines.last().unwrap()["message"], "stopped");
}

/// No output contains the secrets of the files.
#[test]
fn secrets_of_files_are_not_printed() {
    let redis = RedisServer::with().password("canary-password").start();
    let store = format!("redis://:canary-password@{}\n", redis.address());
    let fixture = Fixture::new().file("token", "canary-admin-token\n").file("store", store).file("rules.yaml", RULES);
    let words = ["--rules", "rules.yaml", "--log", "debug", "--admin-token-file", "token", "--store-file", "store"];
    // A deadline that a busy machine keeps.
    let server = ServerProcess::start(&fixture, &[&words[..], &["--store-deadline", "20000"]].concat());
    assert!(server.greeting.contains(&format!("limits in redis://{}", redis.address())), "{}", server.greeting);
    let url = format!("http://{}", server.http());
    let check = fixture.run(&["check", "api", "u", "--server", &url]);
    assert_eq!((check.code, &check.field("source")[0]), (0, &"store".into()), "the password was right");
    let typed = fs::read_to_string(format!("/proc/{}/cmdline", server.id())).unwrap();
    let greeting = server.greeting.clone();
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(typed.contains("--store-file"), "{typed}");
    for printed in [log, greeting, typed] {
        assert!(!printed.contains("canary"), "{printed}");
    }
}

/// Standard output may be a closed pipe.
#[test]
fn a_closed_standard_output_does_not_stop_the_server() {
    let fixture = Fixture::new();
    let port = ratekeeper_testkit::servers::Process::free_port().to_string();
    let words = ["serve", "--http", &port, "--grpc", "off", "--resp", "off", "--admin", "off"];
    let mut child = fixture.command(&words).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let port = port.parse().unwrap();
    let answers =
        || ratekeeper_testkit::servers::http_get(port, "/v1/auth", &[]).is_ok_and(|reply| reply.status == 200);
    wait_until("an answer", TIMEOUT, answers);
    child.kill().unwrap();
    child.wait().unwrap();
}
