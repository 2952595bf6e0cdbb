//! `tollgate check` and `tollgate top`, asking a server that runs.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};

use tollgate_testkit::servers::{Part, RedisServer, require, wait_until};

use crate::{
    desk::Desk,
    running::{PATIENCE, Running},
    serve::RULES,
};

fn urls(server: &Running) -> (String, String) {
    (format!("http://{}", server.http()), format!("http://{}", server.admin()))
}

#[test]
fn the_exit_code_of_check_is_the_verdict() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (url, _) = urls(&server);
    let check = |words: &[&str]| desk.run(&[&["check", "api", "--server", &url], words].concat());
    let first = check(&["u"]);
    assert_eq!((first.code, &first.field("remaining")[0]), (0, &1.into()));
    let look = check(&["u", "--cost", "0"]);
    assert_eq!((look.code, &look.field("remaining")[0]), (0, &1.into()), "a look takes nothing");
    assert_eq!(check(&["user=u"]).code, 0, "the same key by its entry");
    let denied = check(&["user=u"]);
    assert_eq!((denied.code, denied.complaints.as_str()), (1, ""), "a refusal is no error");
    assert!(denied.out.contains("\"verdict\":\"deny\""));
    let never = check(&["v", "--cost", "3"]);
    assert_eq!(never.code, 1);
    assert!(never.out.contains("\"verdict\":\"never\""));
    let reserved = check(&["u", "--wait", "3600000"]);
    assert_eq!(reserved.code, 0);
    assert!(reserved.field("wait_us")[0].as_u64().unwrap() > 0, "{}", reserved.out);
    let (code, source) = (check(&["user=u", "path=/x"]).code, check(&["colour=red"]).field("source")[0].clone());
    assert_eq!((code, source), (1, "no_policy".into()), "an entry more changes nothing, one that nobody limits passes");
}

/// Base64 ends in `=`, which also stands between the name and the value of an entry.
#[test]
fn a_key_may_hold_any_sign_and_an_entry_has_one_value() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (url, _) = urls(&server);
    let check = |words: &[&str]| desk.run(&[&["check", "api", "--server", &url], words].concat());
    let run = check(&["--bare-key", "dGVzdA=="]);
    assert_eq!((&run.field("key")[0], &run.field("policy")[0]), (&"dGVzdA==".into(), &"p".into()));
    let taken_apart = check(&["dGVzdA=="]);
    assert_eq!(taken_apart.code, 0);
    assert!(taken_apart.complaints.contains("use --bare-key dGVzdA== if it is a key"), "{}", taken_apart.complaints);
    for (words, part) in [
        (&["user=1", "user=2"][..], "user is named twice; a request has one value for each entry"),
        (&["=1"], "\"=1\" has no name before the ="),
        (&["u", "--bare-key", "v"], "cannot be used with"),
        (&[], "<KEY|NAME=VALUE>"),
    ] {
        let run = check(words);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{words:?}");
        assert!(run.complaints.contains(part), "{words:?}: {}", run.complaints);
    }
}

#[test]
fn what_nobody_could_say_is_an_error_with_a_way_out() {
    let desk = Desk::new().file("rules.yaml", RULES).file("empty", "");
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for (words, part) in [
        (&["u", "--server", &url, "--cost", "99999999999999"][..], "400: the cost is"),
        (&["u", "v=1", "--server", &url], "one key, or descriptor entries"),
        (&["u", "--server", "http://127.0.0.1:1"], "is `tollgate serve` running there?"),
        (&["u", "--server", &admin], "404: there is nothing at /v1/check"),
        (&["u", "--server", &url, "--token-file", "none"], "none: there is no such file"),
        (&["u", "--server", &url, "--token-file", "empty"], "empty: "),
        (&["u", "--server", "ftp://x"], "http://127.0.0.1:8080"),
        (&["u", "--server", "http://name:word@127.0.0.1:1"], "--token-file"),
        (&["u", "--store", "redis://127.0.0.1:1"], "--rules"),
    ] {
        let run = desk.run(&[&["check", "api"], words].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{words:?}");
        assert!(run.complaints.contains(part), "{words:?}: {}", run.complaints);
    }
    for (place, part) in [("http://127.0.0.1:1", "running there?"), (&url, "404: there is nothing at /api/state")] {
        let run = desk.run(&["top", "--admin", place, "--count", "1"]);
        assert_eq!(run.code, 2);
        assert!(run.complaints.contains(part), "{}", run.complaints);
    }
}

#[test]
fn tokens_come_from_a_file_or_a_variable() {
    let desk = Desk::new()
        .file("tokens", "edge canary-0123456789abcdef api\n")
        .file("token", "canary-0123456789abcdef\n")
        .file("admin", "canary-fedcba9876543210\n");
    let server = Running::start(&desk, &["--tokens", "tokens", "--admin-token-file", "admin"]);
    let (url, admin) = urls(&server);
    let refused = desk.run(&["check", "api", "u", "--server", &url]);
    assert_eq!(refused.code, 2);
    assert!(refused.complaints.contains("401: ") && refused.complaints.contains("Bearer"), "{}", refused.complaints);
    let with_file = ["--server", &url, "--token-file", "token"];
    assert_eq!(desk.run(&[&["check", "api", "u"], &with_file[..]].concat()).code, 0);
    let elsewhere = desk.run(&[&["check", "other", "u"], &with_file[..]].concat());
    assert!(elsewhere.code == 2 && elsewhere.complaints.contains("403: "), "{}", elsewhere.complaints);
    let mut command = desk.command(&["check", "api", "u", "--server", &url]);
    assert!(command.env("TOLLGATE_TOKEN", "canary-0123456789abcdef").status().unwrap().success());

    let refused = desk.run(&["top", "--admin", &admin, "--count", "1"]);
    assert!(refused.code == 2 && refused.complaints.contains("401: "), "{}", refused.complaints);
    let shown = desk.run(&["top", "--admin", &admin, "--count", "1", "--token-file", "admin"]);
    assert!(shown.code == 0 && shown.out.contains("api/per-key"), "{}", shown.complaints);
}

/// The server and the command name the same key on a Redis, so they count together.
#[test]
fn check_can_ask_a_store_without_a_server() {
    let redis = RedisServer::start();
    let store = redis.url();
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml", "--store", &store, "--store-deadline", "20000"]);
    let (url, _) = urls(&server);
    let by_store = ["check", "api", "u", "--store", &store, "--rules", "rules.yaml"];
    assert_eq!(desk.run(&["check", "api", "u", "--server", &url]).field("remaining")[0], 1);
    let run = desk.run(&by_store);
    assert_eq!((run.code, &run.field("remaining")[0], &run.field("source")[0]), (0, &0.into(), &"store".into()));
    assert_eq!(desk.run(&["check", "api", "u", "--server", &url]).code, 1);
    assert_eq!(desk.run(&by_store).code, 1);
    assert_eq!(desk.run(&[&by_store[..], &["--prefix", "other"]].concat()).code, 0, "another prefix, another count");
    // Where no rule decides, the line still tells when and about whom.
    for who in ["user:1", "a=1"] {
        let run = desk.run(&["check", "nope", who, "--store", &store, "--rules", "rules.yaml"]);
        let by_server = desk.run(&["check", "nope", who, "--server", &url]);
        assert_eq!((&run.field("key"), &run.field("source")), (&by_server.field("key"), &by_server.field("source")));
        assert!(run.field("at_ms")[0].as_f64().unwrap() > 1e12, "{}", run.out);
    }
    // What a rule would answer by itself is not the store's word.
    redis.kill();
    let gone = desk.run(&by_store);
    assert_eq!((gone.code, gone.out.as_str()), (2, ""));
    assert!(gone.complaints.starts_with(&format!("--store {store}: ")), "{}", gone.complaints);
}

#[test]
fn top_shows_policies_rates_and_the_keys_refused_most() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for _ in 0..3 {
        desk.run(&["check", "api", "greedy\u{7}\u{202e}", "--server", &url]);
    }
    // Without a terminal it looks twice: totals, then rates.
    let run = desk.run(&["top", "--admin", &admin]);
    assert_eq!(run.code, 0, "{}", run.complaints);
    let rows: Vec<Vec<&str>> = run
        .out
        .lines()
        .filter(|line| line.starts_with("api/p "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows, [["api/p", "-", "-", "2", "1", "0"], ["api/p", "0.0", "0.0", "2", "1", "0"]]);
    assert!(run.out.contains("greedy\\u{7}\\u{202e} "), "control and format characters are not passed on: {}", run.out);
    assert!(!run.out.contains('\u{1b}'), "nor does it move the cursor of a file: {}", run.out);
}

/// `script` gives it a terminal to write to.
#[test]
fn top_keeps_a_terminal_up_to_date() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    let (_, admin) = urls(&server);
    let top = format!("{} top --admin {admin} --count 2", env!("CARGO_BIN_EXE_tollgate"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &top, "/dev/null"]).env_remove("COLUMNS").env_remove("LINES");
    let run = script.output().expect("script, which every Debian has; elsewhere it comes with util-linux");
    let told = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{told}");
    let pages: Vec<&str> = told.split("\u{1b}[H\u{1b}[J").skip(1).collect();
    assert_eq!(pages.len(), 2, "{told:?}");
    assert!(pages.iter().all(|page| page.contains("api/per-key") && page.starts_with("up ")), "{told:?}");
}

/// Forty policies on a screen of twelve lines: what is asked for is what is seen.
#[test]
fn top_shows_the_busiest_that_fit_the_terminal() {
    let mut rules = "domain: api\npolicies:\n".to_owned();
    for number in 0..40 {
        rules.push_str(&format!(
            "  - {{ name: some-policy-with-a-name-that-goes-on-{number:02}, match: {{ p{number}: \"*\" }}, rules: [{{ name: r, algorithm: \
             token_bucket, limit: 2, per: 1h }}] }}\n"
        ));
    }
    let desk = Desk::new().file("rules.yaml", rules);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (url, admin) = urls(&server);
    for number in [31, 17, 31, 31] {
        desk.run(&["check", "api", &format!("p{number}=u"), "--server", &url]);
    }
    for (columns, rows) in [(60, 12), (80, 24), (200, 12)] {
        let top = format!(
            "stty cols {columns} rows {rows}; {} top --admin {admin} --count 1",
            env!("CARGO_BIN_EXE_tollgate")
        );
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &top, "/dev/null"]).env_remove("COLUMNS").env_remove("LINES");
        let told = String::from_utf8(script.output().unwrap().stdout).unwrap();
        let page = told.split("\u{1b}[H\u{1b}[J").nth(1).unwrap();
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

/// Whatever answers there, the command ends, and says what it met.
#[test]
fn whoever_is_no_tollgate_server_is_not_believed() {
    let desk = Desk::new();
    let endless = |mut stream: TcpStream| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head);
        let piece = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
        // Until the other side has had enough.
        while stream.write_all(&piece).is_ok() {}
    };
    let strange = |mut stream: TcpStream| drop(stream.write_all(b"+PONG\r\n"));
    let gone = |stream: TcpStream| drop(stream);
    // Says nothing for as long as the other side waits.
    let mute = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let other = |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]");
    };
    type Answer = fn(TcpStream);
    let cases: [(Answer, &str); 5] = [
        (endless, "longer than 16 MiB"),
        (strange, "not HTTP"),
        (gone, "not HTTP"),
        (mute, "no answer within 5 seconds"),
        (other, "not the state of a tollgate server"),
    ];
    for (answer, part) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Nobody answers before being asked, and what is closed with bytes unread takes its answer along.
            let _ = stream.read(&mut [0; 4096]);
            answer(stream);
        });
        let run = desk.run(&["top", "--admin", &place, "--count", "1"]);
        assert_eq!(run.code, 2, "{part}");
        assert!(run.complaints.contains(part), "{part}: {}", run.complaints);
        server.join().unwrap();
    }
}

#[test]
fn top_tells_first_what_somebody_should_look_at() {
    let desk = Desk::new().file("rules.yaml", RULES);
    let server = Running::start(&desk, &["--rules", "rules.yaml"]);
    let (_, admin) = urls(&server);
    let top = || desk.run(&["top", "--admin", &admin, "--count", "1"]).out;
    assert_eq!(top().lines().nth(1), Some(""), "nothing to tell");
    let switched = Command::new(require(Part::Curl))
        .args(["-sf", "-H", "content-type: application/json", "-d", r#"{"turn":"off"}"#])
        .arg(format!("{admin}/api/switches"))
        .output();
    assert!(switched.unwrap().status.success());
    std::fs::write(desk.path("rules.yaml"), RULES.replace("limit: 2", "limit: 0")).unwrap();
    server.signal("HUP");
    wait_until("both to be told", PATIENCE, || {
        let page = top();
        let told = ["EVERYTHING IS LET THROUGH", "older rules are in force", "rules.yaml:3", "limit is 0"];
        told.iter().all(|part| page.contains(part))
    });
}
