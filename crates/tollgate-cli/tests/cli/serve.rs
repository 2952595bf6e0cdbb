//! `tollgate serve` as a user would start it: what it says, what it answers, and what it takes for an instruction.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;
use tollgate_testkit::servers::{Part, RedisServer, require, wait_until};

use crate::{
    desk::Desk,
    running::{PATIENCE, Running},
};

/// Two an hour for each user.
pub(crate) const RULES: &str = "domain: api\npolicies:\n  - { name: p, match: { user: \"*\" }, rules: [{ name: r, algorithm: token_bucket, limit: 2, per: 1h }] }\n";

/// Every port on a free one, by variables alone.
pub(crate) const FREE: [(&str, &str); 4] =
    [("TOLLGATE_HTTP", "0"), ("TOLLGATE_GRPC", "0"), ("TOLLGATE_RESP", "0"), ("TOLLGATE_ADMIN", "0")];

fn shell(line: &str) -> Vec<u8> {
    let run = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

#[test]
fn without_arguments_it_answers_on_every_wire_and_tells_how_to_ask() {
    let (_, _) = (require(Part::Curl), require(Part::RedisCli));
    let desk = Desk::new();
    let server = Running::launch(&desk, &["serve"], &FREE);
    let first = server.greeting.lines().next().unwrap();
    assert!(first.contains("limits in memory") && first.contains("the sample rules: 4 policies (api)"), "{first}");
    assert!(server.line("rules").contains("tollgate serve --rules FILE|DIR"));

    // The lines it prints are lines that work.
    let told: Value = serde_json::from_slice(&shell(server.line("http"))).unwrap();
    assert_eq!((&told["verdict"], &told["limit"]), (&"allow".into(), &10.into()));
    let told = shell(server.line("resp"));
    assert_eq!(String::from_utf8(told).unwrap(), "0\n16\n15\n-1\n2\n", "as redis-cell answers");
    assert_eq!(server.ask_admin("/healthz").body, "alive\n");
    assert!(server.ask_admin("/").body.contains("<title>"));

    // RateLimitRequest { domain: "api", descriptors: [{ entries: [{ key: "user", value: "42" }] }] }, behind a gRPC frame.
    let desk = desk.file("request", b"\0\0\0\0\x13\x0a\x03api\x12\x0c\x0a\x0a\x0a\x04user\x12\x0242".as_slice());
    let call = |method: &str, body: &str| {
        shell(&format!(
            "curl -s --http2-prior-knowledge -H 'content-type: application/grpc' -H 'te: trailers' \
             --data-binary {body} http://{}/{method}",
            server.grpc()
        ))
    };
    let body = format!("@{}", desk.path("request").display());
    let told = call("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &body);
    assert_eq!(told[5..7], [8, 1], "overall_code: OK in {told:?}");
}

/// Said before anything is served, with the flag that helps.
#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let taken = ["--http", server.http()];
    let run = desk.run(&[&["serve", "--admin", "off", "--grpc", "off", "--resp", "off"], &taken[..]].concat());
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    for part in [server.http(), "another program listens there", "--http"] {
        assert!(run.complaints.contains(part), "{part}: {}", run.complaints);
    }
}

#[test]
fn mistakes_on_the_command_line_are_told_before_anything_starts() {
    let desk = Desk::new().file("bad.yaml", RULES.replace("limit: 2", "limit: 0"));
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
        let run = desk.run(&[&["serve", "--admin", "0", "--grpc", "off", "--resp", "off"], words].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{words:?}");
        assert!(run.complaints.contains(part), "{words:?}: {}", run.complaints);
    }
    let run = desk.run(&["serve", "--http", "off", "--admin", "off", "--grpc", "off", "--resp", "off"]);
    assert!(run.code == 2 && run.complaints.contains("every port is off"), "{}", run.complaints);
}

/// A secret that got lost on its way is no reason to let everybody in.
#[test]
fn an_empty_admin_token_is_refused() {
    let desk = Desk::new();
    let mut command = desk.command(&["serve", "--http", "0", "--grpc", "off", "--resp", "off"]);
    let run = command.env("TOLLGATE_ADMIN_TOKEN", "").output().unwrap();
    let complaints = String::from_utf8(run.stderr).unwrap();
    assert!(
        run.status.code() == Some(2) && complaints.contains("TOLLGATE_ADMIN_TOKEN is empty or no text"),
        "{complaints}"
    );
}

/// Limits in Envoy's form count refused requests, unless one of two switches says otherwise.
#[test]
fn limits_in_envoys_form_charge_all_or_none_if_told_so() {
    let rules = "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 10 } }]\n";
    let desk = Desk::new().file("edge.yaml", rules);
    let left = |words: &[&str], variables: &[(&str, &str)]| {
        let words = [&["serve", "--rules", "edge.yaml"], words].concat();
        let server = Running::launch(&desk, &words, &[&FREE, variables].concat());
        let ask = |cost: u64| {
            let body = format!(r#"{{"domain":"edge","descriptor":{{"user":"ann"}},"cost":{cost}}}"#);
            let told = shell(&format!("curl -s -d '{body}' http://{}/v1/check", server.http()));
            serde_json::from_slice::<Value>(&told).unwrap()
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
    let mut command = desk.command(&["serve", "--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off"]);
    let run = command.env(THEIRS, "maybe").output().unwrap();
    let complaints = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(2) && complaints.contains("is neither true nor false"), "{complaints}");
}

#[test]
fn every_flag_has_a_variable_named_after_it() {
    let help = Desk::new().run(&["serve", "--help"]).out;
    let mut flags = 0;
    // The words of one option, up to the next.
    for option in help.split("\n      --").skip(1).filter(|option| !option.starts_with("help")) {
        let name = option.split([' ', '\n']).next().unwrap();
        let variable = format!("[env: TOLLGATE_{}", name.to_uppercase().replace('-', "_"));
        assert!(option.contains(&variable), "--{option}");
        flags += 1;
    }
    assert!(flags >= 28, "only {flags} flags were found in {help}");
}

#[test]
fn variables_are_obeyed_and_flags_come_first() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let variables = [
        ("TOLLGATE_RULES", "rules.yaml"),
        ("TOLLGATE_HEADERS", "x-ratelimit"),
        ("TOLLGATE_AUTH_ENTRY", "user:header:x-user"),
        ("TOLLGATE_AUTH_DENY_STATUS", "403"),
        ("TOLLGATE_ADMIN_TOKEN", "canary-0123456789abcdef"),
        ("TOLLGATE_ADMIN_TLS", "no"),
        ("TOLLGATE_RESP", "off"),
    ];
    let variables = [&FREE[..2], &FREE[3..], &variables].concat();
    let server = Running::launch(&desk, &["serve", "--auth-deny-status", "401"], &variables);
    assert!(!server.greeting.contains("resp"), "{}", server.greeting);
    let reply = server.ask("/v1/auth?cost=2");
    assert_eq!(reply.status, 200, "no entry, so nobody limits: {reply:?}");
    let ask = || {
        tollgate_testkit::servers::http_get(crate::running::port(server.http()), "/v1/auth?cost=2", &[("x-user", "u")])
    };
    assert_eq!(ask().unwrap().header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(ask().unwrap().status, 401, "the flag's status, not the variable's");
    assert_eq!(server.ask_admin("/metrics").status, 401, "it wants the token");
}

#[test]
fn rules_come_from_files_and_directories() {
    let desk = Desk::new().file("one.yaml", RULES);
    fs::create_dir(desk.path("more")).unwrap();
    let desk = desk.file("more/two.yaml", RULES.replace("api", "two")).file("more/notes.txt", "no rules");
    let server = Running::start(&desk, &["--rules", "one.yaml", "--rules", "more"]);
    let first = server.greeting.lines().next().unwrap();
    assert!(first.ends_with("one.yaml, more: 2 policies (api, two)"), "{first}");
    // A file that is laid beside the others is found.
    let desk = desk.file("more/three.yaml", RULES.replace("api", "three"));
    let source = |domain: &str| {
        let reply = server.ask(&format!("/v1/auth?domain={domain}&entry=user:value:u&cost=0"));
        reply.header("ratelimit-policy").is_some()
    };
    assert!(source("api") && source("two"));
    wait_until("the third file", PATIENCE, || source("three"));
    drop(desk);
}

/// The policies of all files together decide; of those that fit equally well, the one of the file that comes first.
#[test]
fn files_of_one_domain_decide_together() {
    let desk = Desk::new();
    fs::create_dir(desk.path("rules")).unwrap();
    let rules = |name: &str, pattern: &str| {
        // Fields tell the rule's name.
        let named = RULES.replace("name: p", &format!("name: {name}")).replace("name: r", &format!("name: {name}"));
        named.replace("user: \"*\"", pattern)
    };
    let desk = desk
        .file("rules/c.yaml", rules("by-both", "user: \"*\", path: \"*\""))
        .file("rules/b.yaml", rules("by-path", "path: \"*\""))
        .file("rules/a.yaml", rules("by-user", "user: \"*\""))
        .file("rules/d.yaml", rules("by-ip", "ip: \"*\""));
    let server = Running::start(&desk, &["--rules", "rules"]);
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
fn the_log_is_json_where_programs_read_it() {
    let desk = Desk::new();
    let server = Running::start(&desk, &["--log-format", "json"]);
    assert_eq!(server.ask("/v1/auth?domain=nobody").status, 200);
    let greeting: Value = serde_json::from_str(&server.printed()).unwrap();
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // One form of time for the greeting and the log, so that a collector can sort both: digits in the same places.
    let form = |line: &Value| line["timestamp"].as_str().unwrap().replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(form(&greeting), "0000-00-00T00:00:00.000000Z");
    assert_eq!(form(&greeting), form(&lines[0]));
    for line in lines.iter().chain([&greeting]) {
        for field in ["timestamp", "level", "message"] {
            assert!(line[field].is_string(), "{field} in {line}");
        }
    }
    let reported: Vec<_> = lines.iter().filter(|line| line["domain"] == "nobody").collect();
    assert_eq!(reported.len(), 1, "{log}");
    assert_eq!(reported[0]["level"], "WARN");
    assert_eq!(lines.last().unwrap()["message"], "stopped");
}

/// Nothing that can be seen from outside holds what a secret's file holds.
#[test]
fn secrets_come_from_files_and_stay_there() {
    let redis = RedisServer::with().password("canary-password").start();
    let store = format!("redis://:canary-password@{}\n", redis.address());
    let desk = Desk::new().file("token", "canary-admin-token\n").file("store", store).file("rules.yaml", RULES);
    let words = ["--rules", "rules.yaml", "--log", "debug", "--admin-token-file", "token", "--store-file", "store"];
    // However busy the machine is, the store is waited for.
    let server = Running::start(&desk, &[&words[..], &["--store-deadline", "20000"]].concat());
    assert!(server.greeting.contains(&format!("limits in redis://{}", redis.address())), "{}", server.greeting);
    let url = format!("http://{}", server.http());
    let check = desk.run(&["check", "api", "u", "--server", &url]);
    assert_eq!((check.code, &check.field("source")[0]), (0, &"store".into()), "the password was right");
    let typed = fs::read_to_string(format!("/proc/{}/cmdline", server.id())).unwrap();
    let greeting = server.greeting.clone();
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(typed.contains("--store-file"), "{typed}");
    for told in [log, greeting, typed] {
        assert!(!told.contains("canary"), "{told}");
    }
}

/// Its output may be a pipe whose other end is gone.
#[test]
fn a_greeting_that_nobody_reads_stops_nothing() {
    let desk = Desk::new();
    let port = tollgate_testkit::servers::Process::free_port().to_string();
    let words = ["serve", "--http", &port, "--grpc", "off", "--resp", "off", "--admin", "off"];
    let mut child = desk.command(&words).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let port = port.parse().unwrap();
    let answers = || tollgate_testkit::servers::http_get(port, "/v1/auth", &[]).is_ok_and(|reply| reply.status == 200);
    wait_until("an answer", PATIENCE, answers);
    child.kill().unwrap();
    child.wait().unwrap();
}
