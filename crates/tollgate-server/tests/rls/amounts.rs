//! How many permits: of the request, of a descriptor, looked at, given back.

use tollgate_server::grpc::wire::{RateLimitDescriptor, RateLimitRequest};

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
async fn a_descriptors_own_number_goes_before_the_requests() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let mixed = vec![costing(&[("user", "ann")], 7), descriptor(&[("tenant", "t")])];
    let request = RateLimitRequest { hits_addend: 20, ..request("api", mixed) };
    assert_eq!(remaining(&ask(&mut client, request.clone()).await.unwrap()), [3, 80]);
    let refused = ask(&mut client, request).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(remaining(&refused), [3, 80], "seven of three: neither is charged");
}

#[tokio::test]
async fn a_descriptor_of_zero_looks_only() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    ask_one(&mut client, &[("user", "ann")]).await;
    for _ in 0..3 {
        assert_eq!(left(&mut client, &[("user", "ann")]).await, 9);
    }
}

#[tokio::test]
async fn negative_hits_give_back_what_was_taken_and_no_more() {
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
async fn what_is_given_back_beside_a_refused_take_stays_charged() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let (ann, t): (&[_], &[_]) = (&[("user", "ann")], &[("tenant", "t")]);
    ask(&mut client, request("api", vec![costing(t, 50)])).await.unwrap();

    let refused = ask(&mut client, request("api", vec![back(t, 50), costing(ann, 11)])).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(remaining(&refused), [50, 10]);

    let passed = ask(&mut client, request("api", vec![back(t, 50), costing(ann, 10)])).await.unwrap();
    assert!(passes(&passed));
    assert_eq!(remaining(&passed), [100, 0]);
}

#[tokio::test]
async fn more_than_the_limit_at_once_is_over_it_and_costs_nothing() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let refused = ask(&mut client, request("api", vec![costing(&[("user", "ann")], 11)])).await.unwrap();
    assert!(!passes(&refused));
    assert_eq!(left(&mut client, &[("user", "ann")]).await, 10);
}
