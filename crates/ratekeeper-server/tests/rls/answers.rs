//! Decisions of the gRPC wire, and the status of each descriptor.

use ratekeeper_server::grpc::wire::{RateLimit, RateLimitDescriptor, RateLimitOverride, RateLimitUnit, Unit};

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
    assert!(passes(&ask_one(&mut client, &[("user", "bob")]).await), "another user has a separate count");
}

#[tokio::test]
async fn a_status_has_the_limit_the_remaining_permits_and_the_reset_time() {
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

/// A denied request charges every descriptor up to its limit, as in envoyproxy/ratelimit.
#[tokio::test]
async fn a_refused_request_is_counted_on_every_descriptor() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = || request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("path", "/slow")])]);
    for (left, ok) in [([2, 0], [true, true]), ([1, 0], [true, false]), ([0, 0], [true, false]), ([0, 0], [false; 2])] {
        let response = ask(&mut client, both()).await.unwrap();
        assert_eq!(passes(&response), ok == [true, true]);
        assert_eq!(response.statuses.iter().map(is_ok).collect::<Vec<_>>(), ok);
        assert_eq!(remaining(&response), left);
    }
}

/// With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT all descriptors are charged, or none is.
#[tokio::test]
async fn with_the_setting_a_denied_request_charges_nothing() {
    let server = Server::with(RULES, Choices { counts_refused: false, ..Choices::default() }).await;
    let mut client = server.client().await;
    let both = || request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("path", "/slow")])]);
    let first = ask(&mut client, both()).await.unwrap();
    assert!(passes(&first));
    assert_eq!(remaining(&first), [2, 0]);
    for _ in 0..5 {
        let response = ask(&mut client, both()).await.unwrap();
        assert!(!passes(&response));
        // The descriptor within its limit is `OK` and is not charged.
        assert_eq!(response.statuses.iter().map(is_ok).collect::<Vec<_>>(), [true, false]);
        assert_eq!(remaining(&response), [2, 0]);
    }
    // The same holds for inline limits.
    let mut requested = descriptor(&[("other", "x")]);
    requested.limit = Some(RateLimitOverride { requests_per_unit: 3, unit: RateLimitUnit::Year.into() });
    let refused = ask(&mut client, request("api", vec![requested, descriptor(&[("path", "/slow")])])).await.unwrap();
    assert_eq!((passes(&refused), remaining(&refused)), (false, vec![3, 0]));
}

#[tokio::test]
async fn unmatched_requests_pass() {
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
    assert_eq!(remaining(&left), [1], "the refused request was counted here");
}

/// A ban does not hide the statuses of other descriptors.
#[tokio::test]
async fn zero_and_a_limit_that_is_used_up_are_both_over() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    ask_one(&mut client, &[("path", "/slow")]).await;
    let pair = vec![descriptor(&[("path", "/closed")]), descriptor(&[("path", "/slow")])];
    let refused = ask(&mut client, request("api", pair)).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(refused.statuses.iter().map(is_ok).collect::<Vec<_>>(), [false, false]);
}

/// A cost of 0 does not exceed a limit of 0, as in envoyproxy/ratelimit.
#[tokio::test]
async fn a_peek_at_a_limit_of_zero_passes() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let look = RateLimitDescriptor { hits_addend: Some(0), ..descriptor(&[("path", "/closed")]) };
    let passed = ask(&mut client, request("api", vec![look.clone()])).await.unwrap();
    assert!(passes(&passed) && is_ok(&passed.statuses[0]));
    assert_eq!(passed.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, 0);
    let limit = Some(RateLimitOverride { requests_per_unit: 0, unit: RateLimitUnit::Day.into() });
    let passed = ask(&mut client, request("api", vec![RateLimitDescriptor { limit, ..look }])).await.unwrap();
    assert!(passes(&passed) && is_ok(&passed.statuses[0]));
}

/// A descriptor without entries matches no rule and passes. With an inline limit it is counted.
#[tokio::test]
async fn a_descriptor_without_entries_is_unmatched() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let passed = ask(&mut client, request("api", vec![descriptor(&[]), descriptor(&[("user", "ann")])])).await.unwrap();
    assert!(passes(&passed) && passed.statuses[0].current_limit.is_none());
    assert_eq!(remaining(&passed), [0, 2]);
    let limit = Some(RateLimitOverride { requests_per_unit: 1, unit: RateLimitUnit::Year.into() });
    let limited = || request("api", vec![RateLimitDescriptor { limit, ..descriptor(&[]) }]);
    assert!(passes(&ask(&mut client, limited()).await.unwrap()));
    assert!(!passes(&ask(&mut client, limited()).await.unwrap()));
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
async fn native_rules_are_reported_as_limits() {
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
    assert_eq!(response.statuses[0].current_limit, Some(odd), "the rule with the fewest permits remaining is reported");
    assert_eq!(remaining(&response), [3]);
}

/// Two servers on one Redis share the limits.
#[tokio::test]
async fn limits_on_redis_are_the_same() {
    let redis = ratekeeper_testkit::servers::RedisServer::start();
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
