//! Several keys in one command, all or none; policies of a domain with `match: all`; verbs other than a check.

use ratekeeper_core::Span;

use crate::support::{Client, Server, array, load};

const RULES: &str = r#"
domain: login
match: all
policies:
  - { name: per-address, match: { ip: "*" }, rules: [{ name: address, algorithm: token_bucket, limit: 3, per: 1m }] }
  - { name: per-account, match: { user: "*" }, rules: [{ name: account, algorithm: token_bucket, limit: 2, per: 1m }] }
"#;

const PLAIN: &str = r#"
domain: api
policies:
  - { name: per-user, match: { user: "*" }, rules: [{ name: user, algorithm: token_bucket, limit: 4, per: 1m }] }
  - { name: per-tenant, match: { tenant: "*" }, rules: [{ name: tenant, algorithm: token_bucket, limit: 2, per: 1m }] }
  - { name: jobs, match: { job: "*" }, rules: [{ name: at-once, algorithm: concurrency, limit: 1, lease: 1m }] }
"#;

fn server() -> Server {
    let server = Server::start();
    load(&server.engine, &[RULES, PLAIN]);
    server
}

/// The reply to a command as a flat list of words: bulk strings and numbers, without nesting.
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

/// Each ENTRIES is a descriptor. If one denies, none is charged.
#[test]
fn several_descriptors_are_charged_together_or_not_at_all() {
    let server = server();
    let mut client = server.client();
    let both = ["RK.CHECK", "api", "ENTRIES", "1", "user", "7", "ENTRIES", "1", "tenant", "t"];
    for remaining in ["1", "0"] {
        let reply = words(&mut client, &both);
        assert_eq!((value(&reply, "verdict"), value(&reply, "remaining")), ("allow", remaining));
    }
    let denied = words(&mut client, &both);
    assert_eq!((value(&denied, "verdict"), value(&denied, "decided_by")), ("deny", "tenant"));
    assert_eq!(value(&denied, "policy"), "per-tenant");
    let subjects = &denied[denied.iter().position(|word| word == "subjects").unwrap()..];
    let verdicts: Vec<&String> = subjects
        .iter()
        .zip(&subjects[1..])
        .filter(|(name, _)| *name == "verdict")
        .map(|(_, verdict)| verdict)
        .collect();
    assert_eq!(verdicts, ["allow", "allow", "deny", "deny"], "of each subject and its rule: {subjects:?}");
    let user = words(&mut client, &["RK.PEEK", "api", "ENTRIES", "1", "user", "7"]);
    assert_eq!(value(&user, "remaining"), "2", "the denied request was charged to neither");
    let cost = words(&mut client, &["RK.CHECK", "api", "ENTRIES", "1", "user", "7", "COST", "2"]);
    assert_eq!((value(&cost, "verdict"), value(&cost, "remaining")), ("allow", "0"));
}

/// `match: all`: a descriptor is counted by every policy that matches.
#[test]
fn every_policy_that_matches_counts() {
    let server = server();
    let mut client = server.client();
    let login = |user: &'static str| ["RK.CHECK", "login", "ENTRIES", "2", "ip", "10.0.0.1", "user", user];
    assert_eq!(value(&words(&mut client, &login("a")), "remaining"), "1", "the account has the least left");
    assert_eq!(value(&words(&mut client, &login("a")), "decided_by"), "account");
    assert_eq!(value(&words(&mut client, &login("a")), "verdict"), "deny");
    assert_eq!(value(&words(&mut client, &login("b")), "remaining"), "0", "the third of the address");
    let denied = words(&mut client, &login("c"));
    assert_eq!((value(&denied, "verdict"), value(&denied, "policy")), ("deny", "per-address"));
    assert_eq!(words(&mut client, &["RK.RESET", "login", "ENTRIES", "2", "ip", "10.0.0.1", "user", "a"]), ["OK"]);
    assert_eq!(value(&words(&mut client, &login("a")), "remaining"), "1");
}

/// A key named ENTRIES is a key, since no number follows.
#[test]
fn the_bare_key_form_stays() {
    let server = Server::start();
    let mut client = server.client();
    for command in [&["RK.CHECK", "api", "ENTRIES"][..], &["RK.CHECK", "api", "ENTRIES", "COST", "2"]] {
        assert_eq!(value(&words(&mut client, command), "verdict"), "allow");
    }
    assert_eq!(value(&words(&mut client, &["RK.PEEK", "api", "ENTRIES"]), "remaining"), "2");
}

#[test]
fn the_other_verbs_reach_the_key() {
    let server = server();
    let mut client = server.client();
    let mut left = |command: &[&str]| value(&words(&mut client, command), "remaining").to_owned();
    let user = |verb: &'static str, more: &[&'static str]| [&[verb, "api", "ENTRIES", "1", "user", "7"], more].concat();
    assert_eq!(left(&user("RK.CHECK", &["COST", "3"])), "1");
    assert_eq!(left(&user("RK.REFUND", &["COST", "1"])), "2");
    assert_eq!(left(&user("RK.SETTLE", &["RESERVED", "2", "ACTUAL", "1"])), "3");
    assert_eq!(left(&user("RK.PENALIZE", &["COST", "2"])), "1");
    assert_eq!(left(&user("RK.PEEK", &[])), "1");
    let blocked = words(&mut client, &user("RK.BLOCK", &["FOR", "5000"]));
    assert_eq!(value(&blocked, "verdict"), "deny");
    let denied = words(&mut client, &user("RK.CHECK", &[]));
    assert_eq!((value(&denied, "decided_by"), value(&denied, "retry_after_us")), ("block", "5000000"));
    let _ = words(&mut client, &user("RK.BLOCK", &["FOR", "0"]));
    assert_eq!(value(&words(&mut client, &user("RK.CHECK", &[])), "verdict"), "allow", "the block was lifted");
    server.clock.advance(Span::SECOND);
}

/// A lease is renewed and released by its id, and expires without.
#[test]
fn leases_are_renewed_and_released() {
    let server = server();
    let mut client = server.client();
    let job = |verb: &'static str| vec![verb, "api", "ENTRIES", "1", "job", "j"];
    let held = words(&mut client, &job("RK.CHECK"));
    let lease = value(&held, "lease").to_owned();
    assert_eq!(value(&words(&mut client, &job("RK.CHECK")), "verdict"), "deny");
    let with = |verb: &'static str| [job(verb), vec!["LEASE", &lease]].concat();
    server.clock.advance(Span::from_secs(40));
    assert_eq!(value(&words(&mut client, &with("RK.HEARTBEAT")), "held"), "1");
    server.clock.advance(Span::from_secs(40));
    assert_eq!(value(&words(&mut client, &job("RK.CHECK")), "verdict"), "deny", "the heartbeat has renewed it");
    assert_eq!(value(&words(&mut client, &with("RK.RELEASE")), "held"), "1");
    assert_eq!(value(&words(&mut client, &with("RK.HEARTBEAT")), "held"), "0");
    assert_eq!(value(&words(&mut client, &job("RK.CHECK")), "verdict"), "allow");
    assert_eq!(value(&words(&mut client, &job("RK.RELEASE")), "remaining"), "1", "the oldest");
}

/// Verbs inside a transaction; a token for another domain is refused.
#[test]
fn verbs_in_transactions_and_with_tokens() {
    let server = server();
    let mut client = server.client();
    client.exchange(&["MULTI"], "+OK\r\n");
    client.exchange(&["RK.PENALIZE", "api", "ENTRIES", "1", "user", "9", "COST", "3"], "+QUEUED\r\n");
    client.exchange(&["RK.PEEK", "api", "ENTRIES", "1", "user", "9"], "+QUEUED\r\n");
    let replies = words(&mut client, &["EXEC"]);
    assert_eq!(replies.iter().filter(|word| *word == "source").count(), 2, "{replies:?}");
    assert_eq!(value(&replies, "remaining"), "1");

    let token = "other-token-of-32-bytes-or-longer-0123";
    let server = Server::with_tokens(&format!("other {token} billing\n"));
    let mut client = server.client();
    client.exchange(&["AUTH", token], "+OK\r\n");
    for verb in ["RK.PEEK", "RK.PENALIZE", "RK.RELEASE", "RK.RESET"] {
        client.send(array(&[verb, "api", "ENTRIES", "1", "user", "9"]));
        client.expect_error("NOPERM");
    }
    client.send(array(&["RK.BLOCK", "api", "u", "FOR", "1000"]));
    client.expect_error("NOPERM");
}
