//! `ratekeeper simulate`: the JSON lines, every operation, and the sources of requests.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::fixture::Fixture;

const LOG: &str = "name: log, algorithm: sliding_log, limit: 100, per: 1s";

/// The example of the contract, byte for byte.
#[test]
fn the_output_is_the_contract_byte_for_byte() {
    let run =
        Fixture::with_rules(&[LOG]).requests("at_ms,key,cost\n10000,u,5\n10100,u,30\n10200,u,100\n").simulate(&[]);
    assert_eq!(
        run.lines(),
        [
            r#"{"at_ms":10000,"key":"u","cost":5,"op":"take","verdict":"allow","wait_us":0,"retry_after_us":0,"remaining":95,"limit":100,"reset_after_us":1000000,"decided_by":"log","rules":[{"name":"log","verdict":"allow","remaining":95,"limit":100,"retry_after_us":0,"reset_after_us":1000000}]}"#,
            r#"{"at_ms":10100,"key":"u","cost":30,"op":"take","verdict":"allow","wait_us":0,"retry_after_us":0,"remaining":65,"limit":100,"reset_after_us":1000000,"decided_by":"log","rules":[{"name":"log","verdict":"allow","remaining":65,"limit":100,"retry_after_us":0,"reset_after_us":1000000}]}"#,
            r#"{"at_ms":10200,"key":"u","cost":100,"op":"take","verdict":"deny","wait_us":0,"retry_after_us":900000,"remaining":65,"limit":100,"reset_after_us":900000,"decided_by":"log","rules":[{"name":"log","verdict":"deny","remaining":65,"limit":100,"retry_after_us":900000,"reset_after_us":900000}]}"#,
        ]
    );
}

#[test]
fn several_rules_are_listed_in_order_and_shadow_is_the_last_field() {
    let run = Fixture::with_rules(&[
        "name: second, algorithm: sliding_log, limit: 2, per: 1s",
        "name: watched, algorithm: token_bucket, limit: 1, per: 1s, shadow: true",
    ])
    .requests("at_ms,key\n0,u\n0,u\n0,u\n")
    .simulate(&[]);
    assert_eq!(
        run.lines()[1],
        r#"{"at_ms":0,"key":"u","cost":1,"op":"take","verdict":"allow","wait_us":0,"retry_after_us":0,"remaining":0,"limit":2,"reset_after_us":1000000,"decided_by":"second","rules":[{"name":"second","verdict":"allow","remaining":0,"limit":2,"retry_after_us":0,"reset_after_us":1000000},{"name":"watched","verdict":"deny","remaining":0,"limit":1,"retry_after_us":1000000,"reset_after_us":1000000,"shadow":true}]}"#
    );
    assert_eq!(run.field("verdict"), ["allow", "allow", "deny"]);
}

/// Ids, commits, expiry and parts, in the order of a file.
#[test]
fn requests_with_ids_are_charged_once() {
    let requests = "at_ms,key,cost,op,id,lifetime_ms,on_expiry,at_least\n\
        0,u,40,reserve,a,,,\n\
        1,u,40,reserve,a,,,\n\
        2,u,10,commit,a,,,\n\
        3,u,10,commit,a,,,\n\
        4,u,30,reserve,b,1000,refund,\n\
        5,u,30,take,c,1000,,\n\
        6,u,,cancel,c,,,\n\
        1004,u,,peek,,,,\n\
        1005,u,1,commit,b,,,\n\
        1006,u,200,,,,,5\n";
    let run = Fixture::with_rules(&["name: day, algorithm: fixed_window, limit: 100, per: 1d"]).requests(requests);
    let run = run.simulate(&[]);
    assert_eq!(run.field("remaining"), [60, 60, 90, 90, 60, 30, 60, 90, 90, 0]);
    let nothing = Value::Null;
    assert_eq!(run.field("granted")[2..4], [json!(10), json!(10)]);
    assert_eq!(run.field("granted")[6..], [json!(0), nothing.clone(), nothing, json!(90)]);
    assert_eq!(run.field("repeated")[..3], [Value::Null, json!(true), Value::Null]);
}

#[test]
fn a_cost_above_the_limit_is_never() {
    let run = Fixture::with_rules(&[LOG]).requests("at_ms,key,cost\n0,u,101\n").simulate(&[]);
    assert_eq!(run.field("verdict"), ["never"]);
    assert_eq!(run.field("retry_after_us"), [Value::Null]);
}

#[test]
fn a_policy_without_enabled_rules_admits_everything() {
    let run = Fixture::with_rules(&[&format!("{LOG}, enabled: false")]).requests("at_ms,key\n0,u\n").simulate(&[]);
    assert_eq!(
        run.lines(),
        [
            r#"{"at_ms":0,"key":"u","cost":1,"op":"take","verdict":"allow","wait_us":0,"retry_after_us":0,"remaining":0,"limit":0,"reset_after_us":0,"decided_by":null,"rules":[]}"#
        ]
    );
}

#[test]
fn columns_have_any_order_and_empty_cells_have_defaults() {
    let run = Fixture::with_rules(&[LOG])
        .requests(
            "op,max_wait_ms,cost,key,at_ms\r\n,,,u,1\r\n\r\ntake, 0.5 , 7 ,u, 2.50\r\n,,,\"a,\"\"b\"\"\n\\c\",3.001\n",
        )
        .simulate(&[]);
    assert_eq!(run.field("at_ms"), [json!(1), json!(2.5), json!(3.001)]);
    assert_eq!(run.field("cost"), [1, 7, 1]);
    assert_eq!(run.field("key"), ["u", "u", "a,\"b\"\n\\c"]);
    assert!(run.lines()[1].starts_with(r#"{"at_ms":2.5,"#));
}

#[test]
fn a_missing_line_feed_and_a_byte_order_mark_are_accepted() {
    let run = Fixture::with_rules(&[LOG]).requests("\u{feff}at_ms,key\r\n5,last").simulate(&[]);
    assert_eq!(run.field("key"), ["last"]);
}

/// The cost in the file takes precedence over that of the policy.
#[test]
fn the_default_cost_is_that_of_the_policy() {
    let rules = "domain: d\npolicies:\n  - name: p\n    cost: 25\n    rules:\n      - { name: r, algorithm: sliding_log, limit: 100, per: 1s }\n";
    let fixture = Fixture::new().file("rules.yaml", rules);
    let run = fixture.requests("at_ms,key,cost\n0,u,\n0,u,1\n").simulate(&[]);
    assert_eq!(run.field("cost"), [25, 1]);
    assert_eq!(run.field("remaining"), [75, 74]);
}

#[test]
fn a_reservation_has_a_wait() {
    let run = Fixture::with_rules(&["name: b, algorithm: token_bucket, limit: 1, per: 1s"])
        .requests("at_ms,key,max_wait_ms\n0,u,\n0,u,999.999\n0,u,1000\n0,u,1000\n0,u,2000\n")
        .simulate(&[]);
    assert_eq!(run.field("verdict"), ["allow", "deny", "allow", "deny", "allow"]);
    assert_eq!(run.field("wait_us"), [0, 0, 1_000_000, 0, 2_000_000]);
    assert_eq!(run.field("retry_after_us"), [0, 1_000_000, 0, 2_000_000, 0]);
}

#[test]
fn every_operation_works() {
    let run = Fixture::with_rules(&["name: w, algorithm: fixed_window, limit: 10, per: 1h"])
        .requests(
            "at_ms,key,op,cost\n0,u,take,6\n1,u,peek,\n2,u,refund,2\n3,u,penalize,5\n4,u,take,2\n5,u,take,1\n\
             6,u,settle,0\n7,u,settle,3\n8,u,reset,\n9,u,take,0\n",
        )
        .simulate(&[]);
    assert_eq!(
        run.field("op"),
        ["take", "peek", "refund", "penalize", "take", "take", "settle", "settle", "reset", "take"]
    );
    // The take of 1 is settled first, then the take of 6, whose actual cost is 3.
    assert_eq!(run.field("remaining"), [4, 4, 6, 1, 1, 0, 1, 4, 10, 10]);
    let verdicts = run.field("verdict");
    assert_eq!(verdicts.iter().filter(|verdict| *verdict == "deny").count(), 1, "only the take of 2 from 1");
}

#[test]
fn release_releases_the_oldest_lease() {
    let run = Fixture::with_rules(&["name: slots, algorithm: concurrency, limit: 3, lease: 10s"])
        .requests(
            "at_ms,key,op,cost\n0,u,take,2\n1,u,take,2\n2,u,release,1\n3,u,take,2\n4,u,release,3\n10000,u,peek,\n",
        )
        .simulate(&[]);
    assert_eq!(run.field("verdict"), ["allow", "deny", "allow", "allow", "allow", "allow"]);
    assert_eq!(run.field("remaining"), [1, 1, 2, 0, 3, 3]);
    assert_eq!(run.field("retry_after_us")[1], 9_999_000);
}

#[test]
fn requests_may_come_from_standard_input() {
    let fixture = Fixture::with_rules(&[LOG]);
    let run = fixture.run_with(&["simulate", "--rules", "rules.yaml", "--traffic", "-"], b"at_ms,key\n7,u\n");
    assert_eq!(run.field("at_ms"), [7]);
}

#[test]
fn a_policy_is_selected_by_name() {
    let rules = "domain: d\npolicies:\n  - { name: a, match: { k: a }, rules: [{ name: ra, algorithm: gcra, limit: 1, per: 1s }] }\n  - { name: b, match: { k: b }, rules: [{ name: rb, algorithm: gcra, limit: 2, per: 1s }] }\n";
    let fixture = Fixture::new().file("rules.yaml", rules).requests("at_ms,key\n0,u\n");
    assert_eq!(fixture.simulate(&["--policy", "b"]).field("limit"), [2]);
}

#[test]
fn limits_in_envoys_format_are_policies() {
    let rules = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 2 }\n";
    let run = Fixture::new().file("rules.yaml", rules).requests("at_ms,key\n0,u\n1,u\n2,u\n").simulate(&[]);
    assert_eq!(run.field("verdict"), ["allow", "allow", "deny"]);
}

/// `ratekeeper simulate … | head -1` succeeds.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let many: String = (0..200_000).map(|at| format!("{at},u\n")).collect();
    let fixture = Fixture::with_rules(&[LOG]).requests(format!("at_ms,key\n{many}"));
    let mut child = fixture
        .command(&["simulate", "--rules", "rules.yaml", "--requests", "requests.csv"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with(r#"{"at_ms":0,"#));
    let run = child.wait_with_output().unwrap();
    assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_table_is_aligned_and_followed_by_totals() {
    let run = Fixture::with_rules(&[LOG])
        .requests("at_ms,key,cost,max_wait_ms\n10000,u,5,\n10100,u,30,\n10200.5,u,100,\n10300,a-key-that-is-far-too-long-to-be-shown,7,\n10400,u,100,5000\n10500,u,101,\n")
        .simulate(&["--format", "table"]);
    assert_eq!(
        run.stdout,
        "           at ms  key                       op            cost  decision                          remaining  decided by
           10000  u                         take             5  allow                             95 of 100  log
           10100  u                         take            30  allow                             65 of 100  log
         10200.5  u                         take           100  deny, retry in 899.5ms            65 of 100  log
           10300  a-key-that-i…to-be-shown  take             7  allow                             93 of 100  log
           10400  u                         take           100  allow, wait 700ms                  0 of 100  log
           10500  u                         take           101  never                              0 of 100  log
"
    );
    assert_eq!(
        run.stderr,
        "policy per-user: 6 requests, 4 allowed, 1 denied, 1 never; 142 permits admitted\n  \
         rule log: fullest window of 1s 100, limit 100, reached at 11100 ms\n"
    );
}

#[test]
fn a_summary_does_not_change_the_output() {
    let fixture = Fixture::with_rules(&[LOG]).requests("at_ms,key\n0,u\n");
    let run = fixture.simulate(&["--summary"]);
    assert_eq!(run.stdout, fixture.simulate(&[]).stdout);
    assert!(run.stderr.starts_with("policy per-user: 1 requests, 1 allowed"), "{}", run.stderr);
}

#[test]
fn too_little_memory_is_a_warning() {
    let crowd: String = (0..60_000).map(|user| format!("0,user-with-a-long-name-{user}\n")).collect();
    let fixture = Fixture::with_rules(&[LOG]).requests(format!("at_ms,key\n{crowd}"));
    let run = fixture.simulate(&["--budget", "1"]);
    assert_eq!(run.code, 0);
    assert_eq!(run.stdout.lines().count(), 60_000);
    assert!(run.stderr.starts_with("warning: 1 MiB were too few: "), "{}", run.stderr);
    assert!(run.stderr.ends_with("use --budget 2\n"), "{}", run.stderr);
}
