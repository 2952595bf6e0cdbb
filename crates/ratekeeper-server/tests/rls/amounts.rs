//! Costs in gRPC requests: `hits_addend` of request and descriptor, peeks, refunds.

use ratekeeper_server::grpc::wire::{RateLimitDescriptor, RateLimitRequest};

use crate::helpers::{Client, Server, ask, ask_one, descriptor, passes, remaining, request};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 10 }
  - key: tenant
    rate_limit: { unit: year, requests_per_unit: 100 }
";

fn costing(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

fn back(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..costing(entries, hits) }
}

async fn left(client: &mut Client, entries: &[(&str, &str)]) -> u32 {
    remaining(&ask(client, request("api", vec![costing(entries, 0)])).await.unwrap())[0]
}

#[tokio::test]
async fn the_requests_number_counts_for_every_descriptor_and_zero_means_one() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = vec![descriptor(&[("user", "ann")]), descriptor(&[("tenant", "t")])];
    let five = RateLimitRequest { hits_addend: 5, ..request("api", both.clone()) };
    assert_eq!(remaining(&ask(&mut client, five).await.unwrap()), [5, 95]);
    assert_eq!(remaining(&ask(&mut client, request("api", both)).await.unwrap()), [4, 94]);
}

#[tokio::test]
async fn the_cost_of_a_descriptor_takes_precedence() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let mixed = vec![costing(&[("user", "ann")], 7), descriptor(&[("tenant", "t")])];
    let request = RateLimitRequest { hits_addend: 20, ..request("api", mixed) };
    assert_eq!(remaining(&ask(&mut client, request.clone()).await.unwrap()), [3, 80]);
    let refused = ask(&mut client, request).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(remaining(&refused), [0, 60], "seven of three: both are charged, as far as there is something left");
}

#[tokio::test]
async fn a_cost_of_zero_is_a_peek() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    ask_one(&mut client, &[("user", "ann")]).await;
    for _ in 0..3 {
        assert_eq!(left(&mut client, &[("user", "ann")]).await, 9);
    }
}

#[tokio::test]
async fn negative_hits_refund_what_was_taken_and_no_more() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let ann: &[(&str, &str)] = &[("user", "ann")];
    ask(&mut client, request("api", vec![costing(ann, 8)])).await.unwrap();
    let given = ask(&mut client, request("api", vec![back(ann, 5)])).await.unwrap();
    assert!(passes(&given));
    assert_eq!(remaining(&given), [7]);
    let given = ask(&mut client, request("api", vec![back(ann, 1_000)])).await.unwrap();
    assert_eq!(remaining(&given), [10], "never above full");
}

#[tokio::test]
async fn a_refund_next_to_a_denied_take_is_not_made() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let (ann, t): (&[_], &[_]) = (&[("user", "ann")], &[("tenant", "t")]);
    ask(&mut client, request("api", vec![costing(t, 50)])).await.unwrap();

    let refused = ask(&mut client, request("api", vec![back(t, 50), costing(ann, 11)])).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(remaining(&refused), [50, 0]);

    let bob: &[_] = &[("user", "bob")];
    let passed = ask(&mut client, request("api", vec![back(t, 50), costing(bob, 10)])).await.unwrap();
    assert!(passes(&passed));
    assert_eq!(remaining(&passed), [100, 0]);
}

#[tokio::test]
async fn more_than_the_limit_at_once_is_over_it_and_takes_all_of_it() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let refused = ask(&mut client, request("api", vec![costing(&[("user", "ann")], 11)])).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(left(&mut client, &[("user", "ann")]).await, 0);
}

/// Peek first, charge at the end of the stream (`apply_on_stream_done`). A charge cannot be distinguished from a
/// request, so denied requests are counted, and a peek is over the limit once nothing remains.
#[tokio::test]
async fn a_peek_and_a_later_charge_are_enforced() {
    let server = Server::start(
        "domain: api\ndescriptors: [{ key: tokens, rate_limit: { unit: hour, requests_per_unit: 1000 } }]",
    )
    .await;
    let mut client = server.client().await;
    let mut reported = Vec::new();
    for hits in [0, 600, 0, 600, 0, 600, 0] {
        let answer = ask(&mut client, request("api", vec![costing(&[("tokens", "ann")], hits)])).await.unwrap();
        reported.push((passes(&answer), remaining(&answer)[0]));
    }
    let over = (false, 0);
    assert_eq!(reported, [(true, 1000), (true, 400), (true, 400), over, over, over, over]);
    assert!(passes(&ask(&mut client, request("api", vec![costing(&[("tokens", "bob")], 0)])).await.unwrap()));
}

/// Rules in native format count denied requests only with `count_refused`.
#[tokio::test]
async fn native_rules_count_refused_requests_if_configured() {
    let rules = "
domain: api
policies:
  - name: users
    match: { user: '*' }
    rules: [{ name: hour, algorithm: fixed_window, limit: 10, per: 1h }]
  - name: tenants
    match: { tenant: '*' }
    rules: [{ name: hour, algorithm: fixed_window, limit: 100, per: 1h, count_refused: true }]
";
    let server = Server::start(rules).await;
    let mut client = server.client().await;
    let both = vec![costing(&[("user", "ann")], 11), costing(&[("tenant", "t")], 70)];
    let refused = ask(&mut client, request("api", both.clone())).await.unwrap();
    assert_eq!((passes(&refused), remaining(&refused)), (false, vec![10, 30]));
    let refused = ask(&mut client, request("api", both)).await.unwrap();
    assert_eq!((passes(&refused), remaining(&refused)), (false, vec![10, 0]));
}
