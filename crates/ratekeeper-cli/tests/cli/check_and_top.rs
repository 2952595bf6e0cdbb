//! `ratekeeper check` and `ratekeeper top` against a running server.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};

use ratekeeper_testkit::servers::{Part, RedisServer, require, wait_until};

use crate::{
    fixture::Fixture,
    serve::RULES,
    server_process::{ServerProcess, TIMEOUT},
};

fn urls(server: &ServerProcess) -> (String, String) {
    (format!("http://{}", server.http()), format!("http://{}", server.admin()))
}

#[test]
fn the_exit_code_of_check_is_the_verdict() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (url, _) = urls(&server);
    let check = |words: &[&str]| fixture.run(&[&["check", "api", "--server", &url], words].concat());
    let first = check(&["u"]);
    assert_eq!((first.code, &first.field("remaining")[0]), (0, &1.into()));
    let peek = check(&["u", "--cost", "0"]);
    assert_eq!((peek.code, &peek.field("remaining")[0]), (0, &1.into()), "a cost of 0 takes nothing");
    assert_eq!(check(&["user=u"]).code, 0, "the same key by its entry");
    let denied = check(&["user=u"]);
    assert_eq!((denied.code, denied.stderr.as_str()), (1, ""), "a denial is not an error");
    assert!(denied.stdout.contains("\"verdict\":\"deny\""));
    let never = check(&["v", "--cost", "3"]);
    assert_eq!(never.code, 1);
    assert!(never.stdout.contains("\"verdict\":\"never\""));
    let reserved = check(&["u", "--wait", "3600000"]);
    assert_eq!(reserved.code, 0);
    assert!(reserved.field("wait_us")[0].as_u64().unwrap() > 0, "{}", reserved.stdout);
    let (code, source) = (check(&["user=u", "path=/x"]).code, check(&["colour=red"]).field("source")[0].clone());
    assert_eq!(
        (code, source),
        (1, "no_policy".into()),
        "an additional entry changes nothing, and an unmatched one passes"
    );
}

/// Base64 ends in `=`, which also separates the name and the value of an entry.
#[test]
fn keys_may_contain_equal_signs_and_entries_have_one_value() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (url, _) = urls(&server);
    let check = |words: &[&str]| fixture.run(&[&["check", "api", "--server", &url], words].concat());
    let run = check(&["--bare-key", "dGVzdA=="]);
    assert_eq!((&run.field("key")[0], &run.field("policy")[0]), (&"dGVzdA==".into(), &"p".into()));
    let split = check(&["dGVzdA=="]);
    assert_eq!(split.code, 0);
    assert!(split.stderr.contains("use --bare-key dGVzdA== if it is a key"), "{}", split.stderr);
    for (words, part) in [
        (&["user=1", "user=2"][..], "user is named twice; a request has one value for each entry"),
        (&["=1"], "\"=1\" has no name before the ="),
        (&["u", "--bare-key", "v"], "cannot be used with"),
        (&[], "<KEY|NAME=VALUE>"),
    ] {
        let run = check(words);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}");
        assert!(run.stderr.contains(part), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn errors_have_a_remedy_and_exit_code_2() {
    let fixture = Fixture::new().file("rules.yaml", RULES).file("empty", "");
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for (words, part) in [
        (&["u", "--server", &url, "--cost", "99999999999999"][..], "400: the cost is"),
        (&["u", "v=1", "--server", &url], "one key, or descriptor entries"),
        (&["u", "--server", "http://127.0.0.1:1"], "is `ratekeeper serve` running there?"),
        (&["u", "--server", &admin], "404: there is no resource at /v1/check"),
        (&["u", "--server", &url, "--token-file", "none"], "none: there is no such file"),
        (&["u", "--server", &url, "--token-file", "empty"], "empty: "),
        (&["u", "--server", "ftp://x"], "http://127.0.0.1:8080"),
        (&["u", "--server", "http://name:word@127.0.0.1:1"], "--token-file"),
        (&["u", "--store", "redis://127.0.0.1:1"], "--rules"),
    ] {
        let run = fixture.run(&[&["check", "api"], words].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}");
        assert!(run.stderr.contains(part), "{words:?}: {}", run.stderr);
    }
    for (endpoint, part) in
        [("http://127.0.0.1:1", "running there?"), (&url, "404: there is no resource at /api/state")]
    {
        let run = fixture.run(&["top", "--admin", endpoint, "--count", "1"]);
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn tokens_come_from_a_file_or_a_variable() {
    let fixture = Fixture::new()
        .file("tokens", "edge canary-0123456789abcdef api\n")
        .file("token", "canary-0123456789abcdef\n")
        .file("admin", "canary-fedcba9876543210\n");
    let server = ServerProcess::start(&fixture, &["--tokens", "tokens", "--admin-token-file", "admin"]);
    let (url, admin) = urls(&server);
    let refused = fixture.run(&["check", "api", "u", "--server", &url]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("401: ") && refused.stderr.contains("Bearer"), "{}", refused.stderr);
    let with_file = ["--server", &url, "--token-file", "token"];
    assert_eq!(fixture.run(&[&["check", "api", "u"], &with_file[..]].concat()).code, 0);
    let other_domain = fixture.run(&[&["check", "other", "u"], &with_file[..]].concat());
    assert!(other_domain.code == 2 && other_domain.stderr.contains("403: "), "{}", other_domain.stderr);
    let mut command = fixture.command(&["check", "api", "u", "--server", &url]);
    assert!(command.env("RATEKEEPER_TOKEN", "canary-0123456789abcdef").status().unwrap().success());

    let refused = fixture.run(&["top", "--admin", &admin, "--count", "1"]);
    assert!(refused.code == 2 && refused.stderr.contains("401: "), "{}", refused.stderr);
    let shown = fixture.run(&["top", "--admin", &admin, "--count", "1", "--token-file", "admin"]);
    assert!(shown.code == 0 && shown.stdout.contains("api/per-key"), "{}", shown.stderr);
}

/// The server and the command use the same key names in Redis, so they share counts.
#[test]
fn check_decides_in_a_store_without_a_server() {
    let redis = RedisServer::start();
    let store = redis.url();
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server =
        ServerProcess::start(&fixture, &["--rules", "rules.yaml", "--store", &store, "--store-deadline", "20000"]);
    let (url, _) = urls(&server);
    let by_store = ["check", "api", "u", "--store", &store, "--rules", "rules.yaml"];
    assert_eq!(fixture.run(&["check", "api", "u", "--server", &url]).field("remaining")[0], 1);
    let run = fixture.run(&by_store);
    assert_eq!((run.code, &run.field("remaining")[0], &run.field("source")[0]), (0, &0.into(), &"store".into()));
    assert_eq!(fixture.run(&["check", "api", "u", "--server", &url]).code, 1);
    assert_eq!(fixture.run(&by_store).code, 1);
    assert_eq!(fixture.run(&[&by_store[..], &["--prefix", "other"]].concat()).code, 0, "another prefix, another count");
    // If no rule decides, the line still has the time and the key.
    for who in ["user:1", "a=1"] {
        let run = fixture.run(&["check", "nope", who, "--store", &store, "--rules", "rules.yaml"]);
        let by_server = fixture.run(&["check", "nope", who, "--server", &url]);
        assert_eq!((&run.field("key"), &run.field("source")), (&by_server.field("key"), &by_server.field("source")));
        assert!(run.field("at_ms")[0].as_f64().unwrap() > 1e12, "{}", run.stdout);
    }
    // A fallback decision is not reported as a decision of the store.
    redis.kill();
    let gone = fixture.run(&by_store);
    assert_eq!((gone.code, gone.stdout.as_str()), (2, ""));
    assert!(gone.stderr.starts_with(&format!("--store {store}: ")), "{}", gone.stderr);
}

#[test]
fn top_shows_policies_rates_and_the_keys_refused_most() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for _ in 0..3 {
        fixture.run(&["check", "api", "greedy\u{7}\u{202e}", "--server", &url]);
    }
    // Without a terminal there are two updates: totals, then rates.
    let run = fixture.run(&["top", "--admin", &admin]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("api/p "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows, [["api/p", "-", "-", "2", "1", "0"], ["api/p", "0.0", "0.0", "2", "1", "0"]]);
    assert!(
        run.stdout.contains("greedy\\u{7}\\u{202e} "),
        "control and format characters are not passed on: {}",
        run.stdout
    );
    assert!(!run.stdout.contains('\u{1b}'), "no escape sequences in a file: {}", run.stdout);
}

/// `script` provides a terminal.
#[test]
fn top_redraws_a_terminal() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    let (_, admin) = urls(&server);
    let top = format!("{} top --admin {admin} --count 2", env!("CARGO_BIN_EXE_ratekeeper"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &top, "/dev/null"]).env_remove("COLUMNS").env_remove("LINES");
    let run = script.output().expect("script of util-linux");
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{printed}");
    let pages: Vec<&str> = printed.split("\u{1b}[H\u{1b}[J").skip(1).collect();
    assert_eq!(pages.len(), 2, "{printed:?}");
    assert!(pages.iter().all(|page| page.contains("api/per-key") && page.starts_with("up ")), "{printed:?}");
}

/// Forty policies on a terminal of twelve rows: the busiest are shown.
#[test]
fn top_shows_the_busiest_policies_that_fit() {
    let mut rules = "domain: api\npolicies:\n".to_owned();
    for number in 0..40 {
        rules.push_str(&format!(
            "  - {{ name: some-policy-with-a-name-that-goes-on-{number:02}, match: {{ p{number}: \"*\" }}, rules: [{{ name: r, algorithm: \
             token_bucket, limit: 2, per: 1h }}] }}\n"
        ));
    }
    let fixture = Fixture::new().file("rules.yaml", rules);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for number in [31, 17, 31, 31] {
        fixture.run(&["check", "api", &format!("p{number}=u"), "--server", &url]);
    }
    for (columns, rows) in [(60, 12), (80, 24), (200, 12)] {
        let top = format!(
            "stty cols {columns} rows {rows}; {} top --admin {admin} --count 1",
            env!("CARGO_BIN_EXE_ratekeeper")
        );
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &top, "/dev/null"]).env_remove("COLUMNS").env_remove("LINES");
        let printed = String::from_utf8(script.output().unwrap().stdout).unwrap();
        let page = printed.split("\u{1b}[H\u{1b}[J").nth(1).unwrap();
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines.len() < rows, "{columns}×{rows}: {page}");
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}×{rows}: {page}");
        let policies: Vec<&&str> = lines.iter().filter(|line| line.starts_with("api/")).collect();
        assert!(policies.len() > 2 && policies[0].contains(" 2 ") && policies[1].contains(" 1 "), "{page}");
        assert!(lines.iter().any(|line| line.starts_with("… and ") && line.ends_with(" more")), "{page}");
        assert!(lines.iter().any(|line| line.starts_with("refused most")), "{page}");
        assert_eq!(page.contains("api/some-policy-with-a-name-that-goes-on-31"), columns == 200, "{page}");
    }
}

/// The command ends with an error, whatever the peer sends.
#[test]
fn peers_that_are_not_ratekeeper_servers_are_errors() {
    let fixture = Fixture::new();
    let endless = |mut stream: TcpStream| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head);
        let piece = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
        // Until the client closes the connection.
        while stream.write_all(&piece).is_ok() {}
    };
    let not_http = |mut stream: TcpStream| drop(stream.write_all(b"+PONG\r\n"));
    let closed = |stream: TcpStream| drop(stream);
    // Never answers.
    let silent = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let other_json = |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]");
    };
    type Peer = fn(TcpStream);
    let cases: [(Peer, &str); 5] = [
        (endless, "longer than 16 MiB"),
        (not_http, "not HTTP"),
        (closed, "not HTTP"),
        (silent, "no answer within 5 seconds"),
        (other_json, "not the state of a ratekeeper server"),
    ];
    for (peer, part) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Read the request first: closing a socket with unread bytes resets it and loses the response.
            let _ = stream.read(&mut [0; 4096]);
            peer(stream);
        });
        let run = fixture.run(&["top", "--admin", &address, "--count", "1"]);
        assert_eq!(run.code, 2, "{part}");
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        server.join().unwrap();
    }
}

#[test]
fn top_shows_switches_and_rule_errors_first() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (_, admin) = urls(&server);
    let top = || fixture.run(&["top", "--admin", &admin, "--count", "1"]).stdout;
    assert_eq!(top().lines().nth(1), Some(""), "no messages");
    let switched = Command::new(require(Part::Curl))
        .args(["-sf", "-H", "content-type: application/json", "-d", r#"{"set":"off"}"#])
        .arg(format!("{admin}/api/switches"))
        .output();
    assert!(switched.unwrap().status.success());
    std::fs::write(fixture.path("rules.yaml"), RULES.replace("limit: 2", "limit: 0")).unwrap();
    server.signal("HUP");
    wait_until("both to be printed", TIMEOUT, || {
        let page = top();
        let printed = ["EVERYTHING IS ADMITTED", "the previous rules are in force", "rules.yaml:3", "limit is 0"];
        printed.iter().all(|part| page.contains(part))
    });
}
