//! Inline limits of gRPC requests (`limit` of a descriptor).

use ratekeeper_server::grpc::wire::{RateLimit, RateLimitDescriptor, RateLimitOverride, RateLimitUnit, Unit};
use tonic::Code;

use crate::helpers::{Server, ask, descriptor, passes, remaining, request};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
";

fn limited(entries: &[(&str, &str)], requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit }), ..descriptor(entries) }
}

#[tokio::test]
async fn an_inline_limit_replaces_the_rules() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let two = |user: &str| request("api", vec![limited(&[("user", user)], 2, RateLimitUnit::Month.into())]);
    let first = ask(&mut client, two("ann")).await.unwrap();
    let limit = first.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (2, Unit::Month.into()));
    assert_eq!(remaining(&first), [1]);
    assert!(passes(&ask(&mut client, two("ann")).await.unwrap()));
    assert!(!passes(&ask(&mut client, two("ann")).await.unwrap()));
    assert!(passes(&ask(&mut client, two("bob")).await.unwrap()), "each descriptor has a separate count");

    let plain = ask(&mut client, request("api", vec![descriptor(&[("user", "ann")])])).await.unwrap();
    assert_eq!(remaining(&plain), [99], "the rules' own count is another one");
}

#[tokio::test]
async fn an_unmatched_descriptor_may_have_an_inline_limit() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let one = || request("api", vec![limited(&[("color", "red")], 1, RateLimitUnit::Year.into())]);
    assert!(passes(&ask(&mut client, one()).await.unwrap()));
    assert!(!passes(&ask(&mut client, one()).await.unwrap()));
}

#[tokio::test]
async fn a_limit_of_zero_refuses() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let zero = request("api", vec![limited(&[("user", "ann")], 0, RateLimitUnit::Hour.into())]);
    let refused = ask(&mut client, zero).await.unwrap();
    assert!(!passes(&refused));
    let limit = RateLimit { requests_per_unit: 0, unit: Unit::Hour.into(), name: String::new() };
    assert_eq!(refused.statuses[0].current_limit, Some(limit));
}

#[tokio::test]
async fn an_unknown_unit_is_an_error() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for unit in [0, 7, 99, -3] {
        let status = ask(&mut client, request("api", vec![limited(&[("user", "a")], 5, unit)])).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(&format!("unit is {unit}")), "{status}");
    }
}

/// Callers choose inline limits, so the number of installed ones is bounded. Those that were dropped keep their counts.
#[tokio::test]
async fn inline_limits_beyond_the_4096th_take_the_place_of_others() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let day = i32::from(RateLimitUnit::Year);
    for start in (1..=8_192).step_by(64) {
        let descriptors = (start..start + 64).map(|limit| limited(&[("user", "ann")], limit, day)).collect();
        assert!(passes(&ask(&mut client, request("api", descriptors)).await.unwrap()));
    }
    let first = request("api", vec![limited(&[("user", "ann")], 9, day)]);
    assert_eq!(remaining(&ask(&mut client, first).await.unwrap()), [7]);
    let plain = ask(&mut client, request("api", vec![descriptor(&[("user", "ann")])])).await.unwrap();
    assert_eq!(remaining(&plain), [99]);
}
