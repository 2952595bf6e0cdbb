//! `quota_mode` and `metadata` of descriptors.
//!
//! A request is denied if all its quotas are over. Statuses and metadata list those that are.

use prost_types::{Struct, Value, value::Kind};

use ratekeeper_server::grpc::wire::{RateLimitDescriptor, RateLimitResponse};

use crate::helpers::{Server, ask, ask_one, descriptor, is_ok, passes, remaining, request};

const RULES: &str = "
domain: api
descriptors:
  - key: model
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
";

fn shown(metadata: &Struct) -> String {
    let mut fields: Vec<_> = metadata.fields.iter().map(|(name, value)| format!("{name}:{}", json(value))).collect();
    fields.sort();
    fields.join(" ")
}

fn json(value: &Value) -> String {
    match value.kind.as_ref().unwrap() {
        Kind::NumberValue(number) => number.to_string(),
        Kind::StringValue(text) => text.clone(),
        Kind::BoolValue(yes) => yes.to_string(),
        Kind::ListValue(list) => format!("[{}]", list.values.iter().map(json).collect::<Vec<_>>().join(",")),
        Kind::StructValue(fields) => format!("{{{}}}", shown(fields)),
        Kind::NullValue(_) => "null".into(),
    }
}

fn costing(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

fn ok(response: &RateLimitResponse) -> Vec<bool> {
    response.statuses.iter().map(is_ok).collect()
}

#[tokio::test]
async fn the_metadata_lists_exceeded_quotas_and_one_with_room_is_enough() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    ask_one(&mut client, &[("model", "large")]).await;
    let both = || request("api", vec![descriptor(&[("model", "small")]), costing(&[("model", "large")], 1)]);
    let entries = "descriptors:[{entries:[model=small]},{entries:[model=large]}] domain:api quotaModeEnabled:true";
    let one_has_room = ask(&mut client, both()).await.unwrap();
    assert!(passes(&one_has_room), "one quota with room is enough");
    assert_eq!(ok(&one_has_room), [true, false], "the other one is reported as over");
    assert_eq!(shown(one_has_room.dynamic_metadata.as_ref().unwrap()), format!("{entries} quotaModeViolations:[1]"));

    let all_over = ask(&mut client, both()).await.unwrap();
    assert!(!passes(&all_over));
    assert_eq!(ok(&all_over), [false, false]);
    assert_eq!(shown(all_over.dynamic_metadata.as_ref().unwrap()), format!("{entries} quotaModeViolations:[0,1]"));
    let header = |name: &str| all_over.response_headers_to_add.iter().any(|header| header.key == name);
    assert!(header("retry-after"), "{:?}", all_over.response_headers_to_add);
}

/// A limit without `quota_mode` denies by itself and is not counted among the quotas.
#[tokio::test]
async fn limits_and_quotas_of_one_request_are_distinguished() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = |hits| request("api", vec![costing(&[("user", "ann")], hits), descriptor(&[("model", "large")])]);
    let within = ask(&mut client, both(1)).await.unwrap();
    assert!(passes(&within) && ok(&within) == [true, true]);
    let over = ask(&mut client, both(1)).await.unwrap();
    assert!(!passes(&over), "its only quota is over");
    assert_eq!((ok(&over), remaining(&over)), (vec![true, false], vec![98, 0]));
    let refused = ask(&mut client, request("api", vec![costing(&[("user", "ann")], 99)])).await.unwrap();
    assert!(!passes(&refused) && refused.dynamic_metadata.is_none());
}

/// Requests that pass over a quota are charged to it, as far as permits remain.
#[tokio::test]
async fn amounts_over_a_quota_are_counted() {
    let rules = "
domain: api
descriptors:
  - { key: model, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1000 } }
  - { key: spare, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 100000 } }
  - { key: never, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 0 } }
";
    let server = Server::start(rules).await;
    let mut client = server.client().await;
    let pair = |hits| request("api", vec![costing(&[("model", "large")], hits), descriptor(&[("spare", "x")])]);
    for (hits, within, left) in [(600, true, 400), (600, false, 0), (0, false, 0), (1, false, 0)] {
        let answer = ask(&mut client, pair(hits)).await.unwrap();
        assert!(passes(&answer));
        assert_eq!((is_ok(&answer.statuses[0]), remaining(&answer)[0]), (within, left), "{hits}");
    }
    // A peek is over a quota with nothing remaining, and a quota of 0 is always over.
    let looks = vec![costing(&[("model", "large")], 0), descriptor(&[("never", "x")])];
    let refused = ask(&mut client, request("api", looks)).await.unwrap();
    assert_eq!((passes(&refused), ok(&refused)), (false, vec![false, false]));
}

/// The response contains `metadata` while its descriptor is within its limit.
#[tokio::test]
async fn metadata_of_a_descriptor_is_sent_while_it_is_within_its_limit() {
    let rules = "
domain: api
descriptors:
  - key: model
    value: large
    quota_mode: true
    metadata: { service: large-pool, weight: 0.5, zones: [a, b], domain: taken }
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: model
    value: small
    quota_mode: true
    metadata: { service: small-pool }
    rate_limit: { unit: year, requests_per_unit: 100 }
  - key: user
    metadata: { tier: gold }
    rate_limit: { unit: year, requests_per_unit: 1 }
";
    let server = Server::start(rules).await;
    let mut client = server.client().await;
    let large = ask_one(&mut client, &[("model", "large")]).await;
    let expected = "descriptors:[{entries:[model=large]}] domain:api quotaModeEnabled:true service:large-pool \
                    weight:0.5 zones:[a,b]";
    assert_eq!(shown(large.dynamic_metadata.as_ref().unwrap()), expected);

    let both = request("api", vec![descriptor(&[("model", "small")]), descriptor(&[("model", "large")])]);
    let metadata = ask(&mut client, both).await.unwrap().dynamic_metadata.unwrap();
    assert_eq!(json(&metadata.fields["service"]), "small-pool", "the one that has room");
    assert!(!metadata.fields.contains_key("weight"));

    let gold = ask_one(&mut client, &[("user", "ann")]).await.dynamic_metadata.unwrap();
    assert_eq!((json(&gold.fields["tier"]), json(&gold.fields["quotaModeEnabled"])), ("gold".into(), "false".into()));
    let over = ask_one(&mut client, &[("user", "ann")]).await;
    assert!(!passes(&over) && !over.dynamic_metadata.unwrap().fields.contains_key("tier"));
}

#[tokio::test]
async fn without_a_quota_there_is_no_metadata() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    assert_eq!(ask_one(&mut client, &[("user", "ann")]).await.dynamic_metadata, None);
}
