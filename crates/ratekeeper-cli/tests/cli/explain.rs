//! `ratekeeper explain`: the arithmetic of every algorithm for one request.

use ratekeeper_testkit::servers::RedisServer;

use crate::{fixture::Fixture, server_process::ServerProcess};

#[test]
fn sliding_log() {
    let printed = Fixture::with_rules(&["name: log, algorithm: sliding_log, limit: 100, per: 1s"])
        .requests("at_ms,key,cost\n10000,u,5\n10050,other,50\n10100,u,30\n10200,u,100\n")
        .explain("5");
    assert_eq!(
        printed,
        "\
line 5 of requests.csv, at 10200 ms: key \"u\" asks for 100
Denied by rule log. The same request passes in 900ms, at 11100 ms, if no other request comes; now 65 would pass.

rule log (sliding_log 100 per 1s): deny
  the window: after 9200 ms, up to 10200 ms
  before: 35 used, in 2 admissions
    5 at 10000 ms, leaves the window at 11000 ms
    30 at 10100 ms, leaves the window at 11100 ms
  the request: 35 + 100 = 135, which is 35 more than 100
  35 must expire first; the last of them is the admission of 10100 ms, which leaves the window at 11100 ms
  so this rule admits 100 in 900ms, at 11100 ms
  afterwards 65 of 100 would pass at once; the key is in its initial state in 900ms
"
    );
}

#[test]
fn token_bucket_in_units() {
    let printed = Fixture::with_rules(&["name: drops, algorithm: token_bucket, limit: 3, per: 1s, burst: 4"])
        .requests("at_ms,key,cost\n0,u,4\n100,u,1\n")
        .explain("3");
    assert_eq!(
        printed,
        "\
line 3 of requests.csv, at 100 ms: key \"u\" asks for 1
Denied by rule drops. The same request passes in 233.334ms, at 333.334 ms, if no other request comes; now 0 would pass.

rule drops (token_bucket 3 per 1s, burst 4): deny
  one permit is 1000000 units, 3 of which drain every µs; 4 permits are 4000000 units
  before: 4000000 units were used at 0 ms; 100ms later 300000 have drained and 3700000 are left (rounded up, 4 permits)
  the request: 1 × 1000000 = 1000000 units; 3700000 + 1000000 = 4700000, which is 700000 more than 4000000
  700000 units must drain first: 700000 ÷ 3 = 233334 µs, rounded up
  so this rule admits 1 in 233.334ms, at 333.334 ms
  afterwards 0 of 4 would pass at once; the key is in its initial state in 1.233334s
"
    );
}

#[test]
fn stepwise_bucket() {
    let printed =
        Fixture::with_rules(&["name: lumps, algorithm: token_bucket, limit: 5, per: 1s, burst: 10, refill: stepwise"])
            .requests("at_ms,key,cost,max_wait_ms\n5000,u,10,\n6500,u,8,600\n")
            .explain("3");
    for line in [
        "Allowed after a wait of 500ms, at 7000 ms. Rule lumps has the least left: 0 of 10.",
        "rule lumps (token_bucket 5 per 1s, burst 10, stepwise): allow",
        "  before: 10 were used at 5000 ms; with 1 tick since, 5 are; the last tick was at 6000 ms",
        "  the request: 5 + 8 = 13, which is 3 more than 10",
        "  3 must be refilled first, which takes 1 tick: until 7000 ms",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}

#[test]
fn shaped_leaky_bucket() {
    let printed =
        Fixture::with_rules(&["name: drip, algorithm: leaky_bucket, limit: 10, per: 1s, capacity: 2, shaped: true"])
            .requests("at_ms,key\n0,u\n0,u\n0,u\n")
            .explain("4");
    for line in [
        "Denied by rule drip. The same request passes in 100ms, at 100 ms",
        "rule drip (leaky_bucket 10 per 1s, capacity 2, shaped): deny",
        "  shaped: it proceeds when the 200000 units ahead have drained, 200000 ÷ 1 = 200000 µs, rounded up",
        "  so this rule admits 1 in 100ms, to proceed at 200 ms",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}

#[test]
fn fixed_window() {
    let printed = Fixture::with_rules(&["name: hour, algorithm: fixed_window, limit: 2, per: 1h"])
        .requests("at_ms,key,cost\n3600000,u,2\n3700000,u,1\n")
        .explain("3");
    for line in [
        "  the window: 3600000 ms to 7200000 ms, 2 of 2 used before",
        "  the request: 2 + 1 = 3, which is 1 more than 2",
        "  it must wait for the first window with room; this one ends in 58m 20s",
        "  so this rule admits 1 in 58m 20s, at 7200000 ms",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}

#[test]
fn sliding_counter() {
    let printed = Fixture::with_rules(&["name: slices, algorithm: sliding_counter, limit: 10, per: 1s, buckets: 10"])
        .requests("at_ms,key,cost\n50,u,4\n150,u,6\n900,u,5\n")
        .explain("4");
    for line in [
        "  slices of 100ms; each counts until its end is 1s old",
        "    4 at 0 ms, leaves at 1100 ms",
        "    6 at 100 ms, leaves at 1200 ms",
        "  5 must expire first; the last of them is the slice of 100 ms, which leaves at 1200 ms",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}

#[test]
fn concurrency() {
    let printed = Fixture::with_rules(&["name: slots, algorithm: concurrency, limit: 2, lease: 10s"])
        .requests("at_ms,key\n0,u\n100,u\n200,u\n")
        .explain("4");
    for line in [
        "rule slots (concurrency 2 at once, lease 10s): deny",
        "  a lease holds its permits until it is released, 10s at most",
        "    1 at 0 ms, expires at 10000 ms",
        "  1 must expire first; the last of them is the lease of 0 ms, which expires at 10000 ms",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}

#[test]
fn several_rules_are_explained_separately() {
    let printed = Fixture::with_rules(&[
        "name: second, algorithm: sliding_log, limit: 1, per: 1s",
        "name: watched, algorithm: fixed_window, limit: 1, per: 1m, shadow: true",
    ])
    .requests("at_ms,key\n0,u\n2000,u\n")
    .explain("3");
    assert!(printed.contains("rule second (sliding_log 1 per 1s): allow\n"), "{printed}");
    assert!(printed.contains("rule watched (fixed_window 1 per 1m, shadow): deny; not enforced\n"), "{printed}");
}

#[test]
fn other_operations() {
    let fixture = Fixture::with_rules(&["name: w, algorithm: fixed_window, limit: 10, per: 1h"])
        .requests("at_ms,key,op,cost\n0,u,take,6\n1,u,peek,\n2,u,settle,4\n3,u,penalize,2\n4,u,refund,1\n5,u,reset,\n6,u,take,11\n");
    for (line, text) in [
        ("3", "peeks\nDone. Rule w has the least left: 4 of 10."),
        (
            "4",
            "settles the take of 6 at 0 ms: the actual cost is 4, so 2 are refunded\nDone. Rule w has the least left: 6 of 10.",
        ),
        ("5", "is penalized by 2\nDone."),
        ("6", "refunds 1\nDone."),
        ("7", "is reset\nDone. Rule w has the least left: 10 of 10."),
        ("8", "asks for 11\nNever: rule w admits at most 10 at once, however long the request waits."),
    ] {
        let printed = fixture.explain(line);
        assert!(printed.contains(text), "{text}\n{printed}");
    }
}

#[test]
fn long_lists_are_cut() {
    let rows: String = (0..100).map(|at| format!("{at},u,1\n")).collect();
    let printed = Fixture::with_rules(&["name: log, algorithm: sliding_log, limit: 100, per: 1s"])
        .requests(format!("at_ms,key,cost\n{rows}200,u,50\n"))
        .explain("102");
    assert!(printed.contains("    … 34 more …\n"), "{printed}");
    assert!(printed.contains("    1 at 49 ms, leaves the window at 1049 ms\n    … and 50 later\n"), "{printed}");
    assert!(printed.lines().count() < 40, "{printed}");
}

#[test]
fn a_request_is_found_by_time_and_key_too() {
    let fixture = Fixture::with_rules(&["name: log, algorithm: sliding_log, limit: 1, per: 1s"])
        .requests("at_ms,key\n1.5,a\n1.5,b\n2,b\n");
    let ask = |more: &[&str]| {
        fixture.run(&[&["explain", "--rules", "rules.yaml", "--requests", "requests.csv"], more].concat())
    };
    assert!(ask(&["--at-ms", "1.5", "--key", "b"]).stdout.starts_with("line 3 of requests.csv, at 1.5 ms: key \"b\""));
    let missing = ask(&["--at-ms", "9", "--key", "b"]);
    assert_eq!(
        (missing.code, missing.stderr.as_str()),
        (2, "requests.csv: there is no request of key \"b\" at 9 ms\n")
    );
    let beyond = ask(&["--line", "9"]);
    assert_eq!(beyond.code, 2);
    assert!(beyond.stderr.starts_with("requests.csv: there is no request in line 9; "), "{}", beyond.stderr);
    let mistaken = ask(&["--at-ms", "soon", "--key", "b"]);
    assert!(mistaken.stderr.starts_with("--at-ms is \"soon\"; write milliseconds"), "{}", mistaken.stderr);
    assert_eq!(ask(&["--at-ms", "1"]).code, 2, "--key is missing");
}

/// The arithmetic is that of the store; permits that processes hold in advance are not part of it.
#[test]
fn a_prepaid_policy_is_explained_as_the_store_decides() {
    let rules = "domain: api\npolicies:\n  - name: p\n    speed: prepaid\n    \
                 rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s }]\n";
    let printed = Fixture::new().file("rules.yaml", rules).requests("at_ms,key,cost\n0,u,4\n").explain("2");
    let last = "speed: prepaid; the numbers are those of the store, without permits that processes hold in advance\n";
    assert!(printed.starts_with("line 2 of requests.csv") && printed.ends_with(last), "{printed}");
}

/// A running server in memory, and the same rules in Redis: the same words, the exit code of `check`.
#[test]
fn the_next_request_of_a_live_key() {
    const RULES: &str = "domain: api\npolicies:\n  - name: per-user\n    match: { user: \"*\" }\n    rules:\n      - { name: log, \
                         algorithm: sliding_log, limit: 2, per: 1h }\n      - { name: day, algorithm: fixed_window, \
                         limit: 100, per: 1d, count_refused: true }\n";
    let redis = RedisServer::start();
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let (http, admin) = (format!("http://{}", server.http()), format!("http://{}", server.admin()));
    let places: [[Vec<&str>; 2]; 2] = [
        [vec!["--server", &http], vec!["--server", &admin]],
        [
            vec!["--store", redis.url().leak(), "--rules", "rules.yaml"],
            vec!["--store", redis.url().leak(), "--rules", "rules.yaml"],
        ],
    ];
    for [check, explain] in places {
        let check = |words: &[&str]| fixture.run(&[&["check", "api", "user=7"], words, &check].concat());
        let explain = |words: &[&str]| fixture.run(&[&["explain"], explain.as_slice(), words].concat());
        let fresh = explain(&["--domain", "api", "--entry", "user=7"]);
        assert_eq!((fresh.code, fresh.stderr.as_str()), (0, ""));
        assert!(fresh.stdout.contains("Allowed at once. Rule log has the least left: 1 of 2."), "{}", fresh.stdout);
        assert!(fresh.stdout.contains("before: nothing is used"), "{}", fresh.stdout);
        assert_eq!((check(&["--cost", "2"]).code, check(&[]).code), (0, 1));
        let denied = explain(&["--entry", "user=7"]);
        assert_eq!((denied.code, denied.stderr.as_str()), (1, ""), "{}", denied.stdout);
        for part in [
            "domain \"api\", policy \"per-user\", at ",
            "key \"7\" asks for 1\nDenied by rule log. The same request passes in 59m ",
            "\n\nrule log (sliding_log 2 per 1h): deny\n  the window: after ",
            "before: 2 used, in 1 admission\n",
            "the request: 2 + 1 = 3, which is 1 more than 2",
            "\n\nrule day (fixed_window 100 per 1d): allow\n  the window: ",
            ", 3 of 100 used before\n",
            "  refused requests are counted: 1 of 1 are charged\n",
        ] {
            assert!(denied.stdout.contains(part), "{part:?} is not in\n{}", denied.stdout);
        }
        assert_eq!(explain(&["--key", "7", "--cost", "101"]).code, 1, "never");
        assert_eq!(
            explain(&["--entry", "colour=red"]).stdout,
            "domain \"api\": no policy matches; the request is allowed.\n"
        );
    }
    for (words, part) in [
        (&["explain", "--server", &admin][..], "name a key with --key K, or a descriptor with --entry NAME=VALUE"),
        (&["explain", "--server", &admin, "--entry", "user"], "--entry \"user\": write NAME=VALUE"),
        (&["explain", "--rules", "rules.yaml"], "--requests"),
        (&["explain", "--server", &admin, "--key", "u", "--requests", "x.csv"], "cannot be used with"),
        (
            &["explain", "--store", "redis://127.0.0.1:1", "--rules", "rules.yaml", "--key", "7"],
            "--store redis://127.0.0.1:1: ",
        ),
    ] {
        let run = fixture.run(words);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{words:?}: {}", run.stderr);
    }
}
