//! Errors in files and options: location, value found, remedy; exit code 2.

use crate::fixture::{Fixture, Run};

const RULE: &str = "name: r, algorithm: token_bucket, limit: 100, per: 1s";

fn error(run: &Run) -> &str {
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
    run.stderr.strip_suffix('\n').unwrap()
}

/// The error of `simulate` for a requests file.
fn error_for(requests: impl AsRef<[u8]>) -> String {
    error(&Fixture::with_rules(&[RULE]).requests(requests).simulate(&[])).to_owned()
}

#[test]
fn headers() {
    const COLUMNS: &str = "the columns are at_ms and key, and optionally cost, max_wait_ms, op, id, lifetime_ms, \
                           on_expiry and at_least";
    for (header, problem) in [
        ("", "the file is empty; it should begin with a header: "),
        ("key,cost\n", "the header has no column at_ms; "),
        ("at_ms,cost\n", "the header has no column key; "),
        ("at_ms,key,coast\n", "the header has a column \"coast\"; "),
    ] {
        assert_eq!(error_for(header), format!("requests.csv:1: {problem}{COLUMNS}"));
    }
    assert_eq!(error_for("at_ms,key,key\n"), "requests.csv:1: the header has the column key twice; keep one of them");
}

#[test]
fn cells() {
    let times = "write milliseconds with up to 3 decimals, such as 10200 or 10200.125";
    let latest = "the most is 4503599627370.495, in the year 2112";
    for (row, problem) in [
        ("x,u,,,", format!("at_ms is \"x\"; {times}")),
        ("-5,u,,,", format!("at_ms is \"-5\"; {times}")),
        ("1.0001,u,,,", format!("at_ms is \"1.0001\"; {times}")),
        ("1e3,u,,,", format!("at_ms is \"1e3\"; {times}")),
        ("4503599627371,u,,,", format!("at_ms is \"4503599627371\"; {latest}")),
        (",u,,,", "at_ms is empty; write the time of the request, in milliseconds".to_owned()),
        ("1,,,,", "key is empty; write the key of the request".to_owned()),
        ("1,u,-1,,", "cost is \"-1\"; write a whole number, 0 or more".to_owned()),
        ("1,u,1.5,,", "cost is \"1.5\"; write a whole number, 0 or more".to_owned()),
        ("1,u,NaN,,", "cost is \"NaN\"; write a whole number, 0 or more".to_owned()),
        ("1,u,1099511627777,,", "cost is \"1099511627777\"; the most is 1099511627776".to_owned()),
        ("1,u,99999999999999999999,,", "cost is \"99999999999999999999\"; the most is 1099511627776".to_owned()),
        ("1,u,,soon,", format!("max_wait_ms is \"soon\"; {times}")),
        ("1,u,,,Take", "op is \"Take\"; use take, peek, refund, settle, penalize, reset, release, reserve, commit or cancel".to_owned()),
        (
            "1,u,,,settle",
            "settle for key \"u\", which has no admitted take left to settle; put the take above it, or remove this line"
                .to_owned(),
        ),
        (
            "1,u,,",
            "4 cells where the header has 5; leave a cell empty for its default, and put quotes around a key with a comma"
                .to_owned(),
        ),
    ] {
        // Line numbers include blank lines and keys of several lines, as in an editor.
        let before = "at_ms,key,cost,max_wait_ms,op\n\n0,\"two\nlines\",,,\n\n";
        assert_eq!(error_for(format!("{before}{row}\n9,u,,,\n")), format!("requests.csv:6: {problem}"), "{row}");
        assert_eq!(error_for(format!("{before}{row}")), format!("requests.csv:6: {problem}"), "{row} at the end");
        let windows = format!("{before}{row}\n").replace('\n', "\r\n");
        assert_eq!(error_for(windows), format!("requests.csv:6: {problem}"), "{row} with carriage returns");
    }
}

#[test]
fn times_that_descend() {
    assert_eq!(
        error_for("at_ms,key\n5,u\n5,u\n4.999,u\n"),
        "requests.csv:4: at_ms is 4.999, before the 5 of the request above; sort the file by time"
    );
}

#[test]
fn decisions_before_an_error_are_written() {
    let run = Fixture::with_rules(&[RULE]).requests("at_ms,key\n1,u\n2,u\noops,u\n").simulate(&[]);
    assert_eq!((run.code, run.stdout.lines().count()), (2, 2));
}

#[test]
fn keys() {
    let long = "k".repeat(4_097);
    assert_eq!(
        error_for(format!("at_ms,key\n1,{long}\n")),
        "requests.csv:2: key is 4097 bytes long; 4096 is the most, so use a digest of it"
    );
    assert_eq!(error_for(b"at_ms,key\n1,\xff\n"), "requests.csv:2: key is not UTF-8; save the file in that encoding");
    let longest = "k".repeat(4_096);
    let run = Fixture::with_rules(&[RULE]).requests(format!("at_ms,key\n1,{longest}\n")).simulate(&[]);
    assert_eq!(run.field("key"), [longest]);
}

/// Neither a long line nor an open quote fills the memory.
#[test]
fn lines_that_are_too_long() {
    let too_long = "longer than 65536 bytes; is this a requests file, and are all quotes closed?";
    let row = format!("2,{}\n", "k".repeat(65_535));
    assert_eq!(error_for(format!("at_ms,key\n1,u\n{row}")), format!("requests.csv:3: {too_long}"));
    let open = format!("at_ms,key\n1,u\n2,\"{}", "open\n".repeat(400_000));
    assert_eq!(error_for(open), format!("requests.csv:3: {too_long}"));
    assert_eq!(error_for("x".repeat(300_000)), format!("requests.csv:1: {too_long}"));
}

/// The rest of the file would be one cell, and its requests would be missing silently.
#[test]
fn an_unclosed_quote_is_an_error_with_its_line() {
    let open = "a quote opens in this row and is never closed, so the rest of the file would be one cell; close it";
    for (rows, line) in [
        ("1,\"u\n2,v\n3,w\n", 2),
        ("1,\"u\n2,v\n3,w", 2),
        ("1,u\n\n2,\"v", 4),
        ("1,u\n2,\"", 3),
        ("1,\"a\nb\"\n2,\"v\n\n", 4),
    ] {
        assert_eq!(error_for(format!("at_ms,key\n{rows}")), format!("requests.csv:{line}: {open}"), "{rows:?}");
    }
    assert_eq!(error_for("at_ms,\"key"), format!("requests.csv:1: {open}"));
    // Closed quotes at the end of a file are valid.
    for (rows, keys) in
        [("1,u\n2,\"v\n\"", vec!["u", "v\n"]), ("1,\"u\"", vec!["u"]), ("1,u\0\n2,\0", vec!["u\0", "\0"])]
    {
        let run = Fixture::with_rules(&[RULE]).requests(format!("at_ms,key\n{rows}")).simulate(&[]);
        assert_eq!(run.field("key"), keys, "{rows:?}");
    }
}

#[test]
fn policies() {
    let rules = "domain: d\npolicies:\n  - { name: a, match: { k: a }, rules: [{ name: r, algorithm: gcra, limit: 1, per: 1s }] }\n  - { name: b, match: { k: b }, rules: [{ name: r, algorithm: gcra, limit: 2, per: 1s }] }\n";
    let fixture = Fixture::new().file("rules.yaml", rules).requests("at_ms,key\n0,u\n");
    assert_eq!(error(&fixture.simulate(&[])), "rules.yaml: there are 2 policies; choose one with --policy: a, b");
    assert_eq!(
        error(&fixture.simulate(&["--policy", "c"])),
        "rules.yaml: there is no policy \"c\"; choose one of: a, b"
    );
}

#[test]
fn rule_files_with_mistakes() {
    let fixture = Fixture::with_rules(&["name: r, algorithm: token_bucket, limit: 0, per: 1s"]).requests("at_ms,key\n");
    assert_eq!(
        error(&fixture.simulate(&[])),
        "rules.yaml:6:52: policies[0].rules[0].limit: limit is 0, which refuses every request; use 1 or more, or leave the rule \
         out to admit every request"
    );
}

#[test]
fn missing_files() {
    let fixture = Fixture::with_rules(&[RULE]);
    assert_eq!(error(&fixture.simulate(&[])), "requests.csv: there is no such file");
    let run = fixture.run(&["simulate", "--rules", "none.yaml", "--requests", "-"]);
    assert_eq!(error(&run), "none.yaml: there is no such file");
}

#[test]
fn invalid_stores() {
    let fixture = Fixture::with_rules(&[RULE]).requests("at_ms,key\n");
    assert_eq!(
        error(&fixture.simulate(&["--store", "mysql://:secret@localhost"])),
        "--store: the address starts with none of the schemes known here; redis://, redis+sentinel:// and redis+cluster:// would \
         do, or the same with rediss for TLS; or use memory, which needs no server"
    );
    let printed = fixture.simulate(&["--store", "mysql://localhost"]);
    assert!(error(&printed).starts_with("--store: the address starts with \"mysql://\"; redis://,"));
    assert_eq!(fixture.simulate(&["--store", "memory"]).lines().len(), 0);
}

#[test]
fn invalid_comparisons() {
    let fixture = Fixture::with_rules(&[RULE]).requests("at_ms,key\n");
    assert_eq!(
        error(&fixture.simulate(&["--compare"])),
        "--compare prints totals, not single decisions; add --plot FILE.svg or --format table, or choose one policy with \
         --policy"
    );
    let run = fixture.run(&["simulate", "--rules", "rules.yaml", "--requests", "-", "--compare", "--format", "table"]);
    assert_eq!(error(&run), "--compare reads the requests once per policy; give a file instead of -");
}

#[test]
fn invalid_plot_files() {
    let fixture = Fixture::with_rules(&[RULE]).requests("at_ms,key\n");
    assert_eq!(error(&fixture.simulate(&["--plot", "a.png"])), "--plot a.png: plots are SVG; use --plot a.svg");
    let printed = fixture.simulate(&["--plot", "no/such/plot.svg"]);
    assert_eq!(
        error(&printed),
        "no/such/plot.svg: could not be written: there is no directory no/such; create it first"
    );
}

#[test]
fn unknown_options() {
    let fixture = Fixture::new();
    for args in [&["simulate"][..], &["simulate", "--rulez", "x"], &["fly"], &[], &["explain", "--rules", "x"]] {
        assert_eq!(fixture.run(args).code, 2, "{args:?}");
    }
}
