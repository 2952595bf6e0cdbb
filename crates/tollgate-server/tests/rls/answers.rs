//! What is decided, and what each descriptor is told.

use tollgate_server::grpc::wire::{RateLimit, Unit};

use crate::helpers::{Choices, Server, ask, ask_one, descriptor, is_ok, passes, remaining, request};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: path
    value: /slow
    rate_limit: { unit: year, requests_per_unit: 1, name: slow-paths }
  - key: path
    value: /free
    rate_limit: { unlimited: true }
  - key: path
    value: /closed
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: watched
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
";

#[tokio::test]
async fn the_fourth_of_three_is_over_the_limit() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for left in [2, 1, 0] {
        let response = ask_one(&mut client, &[("user", "ann")]).await;
        assert!(passes(&response));
        assert_eq!(remaining(&response), [left]);
    }
    let response = ask_one(&mut client, &[("user", "ann")]).await;
    assert!(!passes(&response));
    assert!(!is_ok(&response.statuses[0]));
    assert!(passes(&ask_one(&mut client, &[("user", "bob")]).await), "somebody else has a count of his own");
}

#[tokio::test]
async fn a_status_tells_the_limit_what_is_left_and_when_it_resets() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let response = ask_one(&mut client, &[("path", "/slow")]).await;
    let status = &response.statuses[0];
    let limit = RateLimit { requests_per_unit: 1, unit: Unit::Year.into(), name: "slow-paths".into() };
    assert_eq!(status.current_limit, Some(limit));
    assert_eq!(status.limit_remaining, 0);
    let resets = status.duration_until_reset.unwrap();
    assert!((1..=365 * 86_400).contains(&resets.seconds), "within the year: {resets:?}");

    let unnamed = ask_one(&mut client, &[("user", "ann")]).await;
    assert_eq!(unnamed.statuses[0].current_limit.as_ref().unwrap().name, "", "the file gives it no name");
}

#[tokio::test]
async fn all_descriptors_are_charged_or_none_is() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = || request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("path", "/slow")])]);
    let first = ask(&mut client, both()).await.unwrap();
    assert!(passes(&first));
    assert_eq!(remaining(&first), [2, 0]);
    for _ in 0..5 {
        let response = ask(&mut client, both()).await.unwrap();
        assert!(!passes(&response));
        // The one that is within its limit says so, and keeps what it has.
        assert_eq!(response.statuses.iter().map(is_ok).collect::<Vec<_>>(), [true, false]);
        assert_eq!(remaining(&response), [2, 0]);
    }
}

#[tokio::test]
async fn what_no_rule_is_about_passes() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for (domain, entries) in [("api", ("color", "red")), ("elsewhere", ("user", "ann"))] {
        let response = ask(&mut client, request(domain, vec![descriptor(&[entries])])).await.unwrap();
        assert!(passes(&response));
        assert!(is_ok(&response.statuses[0]));
        assert_eq!(response.statuses[0].current_limit, None);
        assert_eq!(response.response_headers_to_add, []);
    }
}

#[tokio::test]
async fn unlimited_has_plenty_and_zero_has_nothing() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let free = ask_one(&mut client, &[("path", "/free")]).await;
    assert!(passes(&free));
    assert_eq!((free.statuses[0].limit_remaining, free.statuses[0].current_limit.clone()), (u32::MAX, None));

    let closed = ask_one(&mut client, &[("path", "/closed")]).await;
    assert!(!passes(&closed));
    let limit = RateLimit { requests_per_unit: 0, unit: Unit::Day.into(), name: String::new() };
    assert_eq!(closed.statuses[0].current_limit, Some(limit));

    let pair = vec![descriptor(&[("user", "ann")]), descriptor(&[("path", "/closed")])];
    let refused = ask(&mut client, request("api", pair)).await.unwrap();
    assert!(!passes(&refused));
    let left = ask_one(&mut client, &[("user", "ann")]).await;
    assert_eq!(remaining(&left), [2], "a refused request charges nobody");
}

#[tokio::test]
async fn a_shadow_counts_and_lets_pass() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for left in [0, 0, 0] {
        let response = ask_one(&mut client, &[("watched", "x")]).await;
        assert!(passes(&response) && is_ok(&response.statuses[0]));
        assert_eq!(remaining(&response), [left]);
        assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, 1);
    }
}

#[tokio::test]
async fn rules_of_our_own_form_are_told_as_limits_too() {
    let rules = "
domain: api
policies:
  - name: per-user
    match: { user: '*' }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 5, per: 1h }
      - { name: odd, algorithm: sliding_log, limit: 4, per: 90m }
";
    let server = Server::start(rules).await;
    let mut client = server.client().await;
    let response = ask_one(&mut client, &[("user", "ann")]).await;
    let odd = RateLimit { requests_per_unit: 4, unit: Unit::Unknown.into(), name: "odd".into() };
    assert_eq!(response.statuses[0].current_limit, Some(odd), "the rule with the least left speaks");
    assert_eq!(remaining(&response), [3]);
}

/// One process asked through two connections, and a store that several processes share.
#[tokio::test]
async fn limits_on_redis_are_the_same() {
    let redis = tollgate_testkit::servers::RedisServer::start();
    let shared = || Choices { store: redis.url(), ..Choices::default() };
    let server = Server::with(RULES, shared()).await;
    let other = Server::with(RULES, shared()).await;
    let (mut client, mut others) = (server.client().await, other.client().await);
    let both = || request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("watched", "w")])]);
    assert_eq!(remaining(&ask(&mut client, both()).await.unwrap()), [2, 0]);
    assert_eq!(remaining(&ask(&mut others, both()).await.unwrap()), [1, 0]);
    assert_eq!(remaining(&ask(&mut client, both()).await.unwrap()), [0, 0]);
    assert!(!passes(&ask(&mut others, both()).await.unwrap()));
}
