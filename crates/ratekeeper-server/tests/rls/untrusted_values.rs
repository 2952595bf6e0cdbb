//! Untrusted descriptor values: no header or path of a proxy's client turns a decision into an error.
//!
//! Envoy lets requests pass on errors by default, so an error would bypass every limit.

use prost_types::value::Kind;
use ratekeeper_server::grpc::wire::{Entry, RateLimitDescriptor};

use crate::helpers::{Client, Server, ask, ask_one, descriptor, passes, remaining, request};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: path
    descriptors:
      - key: user
        rate_limit: { unit: year, requests_per_unit: 3 }
  - key: page
    value: /export/*
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: budget
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
";

/// A value that is longer than a key may be; two of them differ only at the end.
fn long(end: &str) -> String {
    format!("{}{end}", "k".repeat(5_000))
}

fn bytes(key: &str, value: &[u8]) -> RateLimitDescriptor {
    let entries = vec![Entry { key: key.into(), value: value.to_vec() }];
    RateLimitDescriptor { entries, ..Default::default() }
}

/// Expects three requests with this descriptor to pass and the fourth to be denied.
async fn are_limited(client: &mut Client, descriptor: RateLimitDescriptor) {
    for left in [2, 1, 0] {
        let response = ask(client, request("api", vec![descriptor.clone()])).await.unwrap();
        assert_eq!((passes(&response), remaining(&response)), (true, vec![left]));
    }
    let response = ask(client, request("api", vec![descriptor])).await.unwrap();
    assert!(!passes(&response), "{response:?}");
}

#[tokio::test]
async fn a_long_value_is_limited_like_any_other() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for value in [long("a"), long("b"), "é".repeat(30_000)] {
        are_limited(&mut client, descriptor(&[("user", &value)])).await;
    }
    // Each value is short enough; together they exceed the maximum key length.
    let half = "v".repeat(2_100);
    are_limited(&mut client, descriptor(&[("path", &half), ("user", &half)])).await;
    are_limited(&mut client, descriptor(&[("path", &half), ("user", &long("c"))])).await;
    assert_eq!(server.bad_requests(), 0);
}

#[tokio::test]
async fn a_long_value_matches_the_rule_of_its_prefix() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let page = format!("/export/{}", long(""));
    assert!(passes(&ask_one(&mut client, &[("page", &page)]).await));
    assert!(!passes(&ask_one(&mut client, &[("page", &page)]).await));
}

#[tokio::test]
async fn a_long_unmatched_value_stops_no_other_limit() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let odd = [descriptor(&[("nosuch", &long(""))]), bytes("nosuch", b"\xff"), descriptor(&[("user", &long("u"))])];
    for odd in odd {
        let mut user = descriptor(&[("user", "zed")]);
        user.hits_addend = Some(4);
        let response = ask(&mut client, request("api", vec![user, odd])).await.unwrap();
        assert!(!passes(&response), "four of three are over the limit: {response:?}");
    }
}

#[tokio::test]
async fn values_that_are_not_utf_8_are_limited_and_distinguished() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for value in [b"\xff\xfe".as_slice(), b"\xff\xfd", b"ann\xc3", b"\x80", &[0xff; 20_000]] {
        are_limited(&mut client, bytes("user", value)).await;
    }
    assert_eq!(remaining(&ask_one(&mut client, &[("user", "ann")]).await), [2], "and not taken for their neighbours");
    assert_eq!(server.bad_requests(), 0);
}

/// A proxy's configuration may put one header into every descriptor. Envoy accepts 60 KiB of header fields.
#[tokio::test]
async fn a_header_in_every_descriptor_makes_a_long_message_and_an_answer() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let header = "h".repeat(60 << 10);
    let mut descriptors = vec![descriptor(&[("nosuch", &header)]); 63];
    descriptors.push(descriptor(&[("user", &header)]));
    for expected in [true, true, true, false] {
        let response = ask(&mut client, request("api", descriptors.clone())).await.unwrap();
        assert_eq!(passes(&response), expected);
    }
}

#[tokio::test]
async fn metadata_escapes_and_shortens_unusual_values() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let asked = request("api", vec![bytes("budget", b"\xff"), descriptor(&[("budget", &long(""))])]);
    let metadata = ask(&mut client, asked).await.unwrap().dynamic_metadata.unwrap();
    let reported = format!("{:?}", metadata.fields["descriptors"]);
    assert!(reported.contains(r"budget=\\xff"), "{reported}");
    assert!(reported.contains("budget=kkk") && reported.contains("…sha256:") && reported.len() < 1_000, "{reported}");
    assert_eq!(metadata.fields["quotaModeEnabled"].kind, Some(Kind::BoolValue(true)));
}
