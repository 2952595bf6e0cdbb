//! Wildcards in a descriptor's value: any number of `*`, anywhere.

use std::fmt::Write;

use crate::helpers::{Server, ask_one, passes, remaining};

const RULES: &str = "
domain: api
descriptors:
  - key: path
    value: /api/*/action
    rate_limit: { unit: year, requests_per_unit: 1, name: actions }
  - key: path
    value: /api/7/action
    rate_limit: { unit: year, requests_per_unit: 5 }
  - key: path
    value: /api/*
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: path
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: host
    value: '*.example.*'
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 2 }
";

/// Precedence: the exact value, then the first matching wildcard of the file, then the key without a value.
#[tokio::test]
async fn an_inner_wildcard_limits_what_matches_it() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for (path, limit) in [
        ("/api/1/action", 1),
        ("/api/1/2/action", 1),
        ("/api/7/action", 5),
        ("/api/1/actions", 2),
        ("/api/action", 2),
        ("/other", 3),
    ] {
        let response = ask_one(&mut client, &[("path", path)]).await;
        assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, limit, "{path}");
    }
    assert!(!passes(&ask_one(&mut client, &[("path", "/api/1/action")]).await));
    assert!(passes(&ask_one(&mut client, &[("path", "/api/2/action")]).await), "each value is counted on its own");
}

#[tokio::test]
async fn values_of_a_shared_wildcard_are_counted_together() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    assert_eq!(remaining(&ask_one(&mut client, &[("host", "a.example.com")]).await), [1]);
    assert_eq!(remaining(&ask_one(&mut client, &[("host", "b.example.org")]).await), [0]);
    assert!(!passes(&ask_one(&mut client, &[("host", "c.example.net")]).await));
}

/// A thousand wildcards at one level, and a value of 64 KiB that matches only the last of them.
#[tokio::test]
async fn many_wildcards_and_long_values_are_answered() {
    let mut rules = "domain: api\ndescriptors:\n".to_owned();
    for number in 1_000..2_000 {
        let limit = "rate_limit: { unit: year, requests_per_unit: 3 }";
        writeln!(rules, "  - {{ key: path, value: '*a{number}*b*c', {limit} }}").unwrap();
    }
    let server = Server::start(&rules).await;
    let mut client = server.client().await;
    let long = format!("{}a1999b{}c", "a1".repeat(16_000), "x".repeat(32_000));
    let started = std::time::Instant::now();
    assert_eq!(remaining(&ask_one(&mut client, &[("path", &long)]).await), [2]);
    println!("1000 wildcards, a value of {} bytes: {:?}", long.len(), started.elapsed());
}
