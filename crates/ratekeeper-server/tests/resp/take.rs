//! `RK.TAKE`: rules that come with the call.

use ratekeeper_core::Span;

use crate::support::{Client, Server, array};

fn words(client: &mut Client, command: &[&str]) -> Vec<String> {
    client.send(array(command));
    let mut words = Vec::new();
    client.read_value(&mut words);
    words
}

/// The value after the first `field`.
fn value<'a>(words: &'a [String], field: &str) -> &'a str {
    let at = words.iter().position(|word| word == field).unwrap_or_else(|| panic!("no {field} in {words:?}"));
    &words[at + 1]
}

/// Each algorithm with a limit of 2: two pass, the third does not.
#[test]
fn every_algorithm_comes_with_the_call() {
    let server = Server::start();
    let mut client = server.client();
    for rule in [
        &["token_bucket", "2", "1m"][..],
        &["gcra", "2", "60"],
        &["TOKEN_BUCKET", "2", "1m", "refill", "stepwise"],
        &["leaky_bucket", "2", "1m"],
        &["fixed_window", "2", "60s", "ALIGN", "first_request"],
        &["sliding_log", "2", "1m"],
        &["sliding_counter", "2", "1m", "BUCKETS", "6"],
        &["concurrency", "2", "1m"],
    ] {
        let key = rule.concat();
        let take = [&["RK.TAKE", key.as_str()][..], rule].concat();
        let verdicts: Vec<String> = (0..3).map(|_| value(&words(&mut client, &take), "verdict").to_owned()).collect();
        assert_eq!(verdicts, ["allow", "allow", "deny"], "{rule:?}");
    }
}

/// Several rules are charged together or not at all, and each has its numbers.
#[test]
fn several_rules_come_with_one_call() {
    let server = Server::start();
    let mut client = server.client();
    let take = ["RK.TAKE", "u", "sliding_log", "2", "1m", "AND", "fixed_window", "10", "1d", "NAME", "day"];
    let with = |more: &[&'static str]| [&take[..], more].concat();
    assert_eq!(value(&words(&mut client, &with(&["COST", "2"])), "remaining"), "0");
    let denied = words(&mut client, &take);
    assert_eq!((value(&denied, "verdict"), value(&denied, "decided_by")), ("deny", "1"));
    assert_eq!(value(&denied[denied.iter().position(|word| word == "day").unwrap()..], "remaining"), "8");
    let waited = words(&mut client, &with(&["WAIT", "60000"]));
    assert_eq!((value(&waited, "verdict"), value(&waited, "wait_us")), ("allow", "60000000"));
    client.exchange(&["DEL", "u", "other"], ":1\r\n");
    assert_eq!(value(&words(&mut client, &take), "remaining"), "1");
}

/// A key has one state: what was used under a rule stays used when its numbers change.
#[test]
fn a_changed_limit_keeps_what_was_used() {
    let server = Server::start();
    let mut client = server.client();
    let mut left = |limit: &str| {
        value(&words(&mut client, &["RK.TAKE", "u", "fixed_window", limit, "1h"]), "remaining").to_owned()
    };
    assert_eq!((left("5"), left("10"), left("10")), ("4".to_owned(), "8".to_owned(), "7".to_owned()));
    server.clock.advance(Span::HOUR);
    assert_eq!(left("5"), "4");
}

#[test]
fn mistakes_have_the_messages_of_rule_files() {
    let server = Server::start();
    let mut client = server.client();
    for (rule, message) in [
        (&["token_bucket", "0", "1s"][..], "ERR rules[0].limit: limit is 0, which refuses every request"),
        (&["tokenbucket", "1", "1s"], "ERR rules[0].algorithm:"),
        (&["token_bucket", "1", "soon"], "ERR rules[0].per:"),
        (&["token_bucket", "1", "1s", "BRUST", "5"], "did you mean `burst`"),
        (&["token_bucket", "1", "1s", "AND", "sliding_log", "1", "1s", "BURST", "2"], "ERR rules[1].burst:"),
        (&["token_bucket", "1", "1s", "BURST"], "ERR syntax error at 'BURST'"),
        (&["token_bucket", "1", "1s", "LIMIT", "2"], "ERR syntax error at 'LIMIT'"),
        (&["token_bucket", "1", "1s", "AND"], "wrong number of arguments for 'rk.take'"),
        (&["token_bucket", "1"], "wrong number of arguments for 'rk.take'"),
        (&["token_bucket", "1", "1s", "COST", "x"], "COST 'x' is not a whole number"),
    ] {
        client.send(array(&[&["RK.TAKE", "u"][..], rule].concat()));
        client.expect_error(message);
    }
    let server = Server::with_tokens("edge canary-for-the-edge    api,edge\n");
    let mut client = server.client();
    client.exchange(&["AUTH", "canary-for-the-edge"], "+OK\r\n");
    client.send(array(&["RK.TAKE", "u", "token_bucket", "1", "1s"]));
    client.expect_error("NOPERM");
}
