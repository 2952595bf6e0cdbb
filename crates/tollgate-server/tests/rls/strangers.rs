//! What a client of the proxy can write into a header or a path never turns a decision into an error: Envoy lets errors
//! pass unless told otherwise, so an error would be a way around every limit.

use prost_types::value::Kind;
use tollgate_server::grpc::wire::{Entry, RateLimitDescriptor};

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

/// Longer than a key may be, and told apart only by their ends.
fn long(end: &str) -> String {
    format!("{}{end}", "k".repeat(5_000))
}

fn bytes(key: &str, value: &[u8]) -> RateLimitDescriptor {
    let entries = vec![Entry { key: key.into(), value: value.to_vec() }];
    RateLimitDescriptor { entries, ..Default::default() }
}

/// Three pass, whatever they are called, and the fourth does not.
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
    // Short enough each, and too long together.
    let half = "v".repeat(2_100);
    are_limited(&mut client, descriptor(&[("path", &half), ("user", &half)])).await;
    are_limited(&mut client, descriptor(&[("path", &half), ("user", &long("c"))])).await;
    assert_eq!(server.bad_requests(), 0);
}

#[tokio::test]
async fn a_long_value_still_falls_under_the_rule_for_its_beginning() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let page = format!("/export/{}", long(""));
    assert!(passes(&ask_one(&mut client, &[("page", &page)]).await));
    assert!(!passes(&ask_one(&mut client, &[("page", &page)]).await));
}

#[tokio::test]
async fn a_long_value_that_no_rule_is_about_stops_no_other_limit() {
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
async fn bytes_that_are_no_text_are_limited_and_told_apart() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    for value in [b"\xff\xfe".as_slice(), b"\xff\xfd", b"ann\xc3", b"\x80", &[0xff; 20_000]] {
        are_limited(&mut client, bytes("user", value)).await;
    }
    assert_eq!(remaining(&ask_one(&mut client, &[("user", "ann")]).await), [2], "and not taken for their neighbours");
    assert_eq!(server.bad_requests(), 0);
}

/// A proxy's configuration may put one header into each of them. Envoy takes 60 KiB of header fields.
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
async fn the_metadata_tell_of_odd_values_in_few_words_and_good_text() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let asked = request("api", vec![bytes("budget", b"\xff"), descriptor(&[("budget", &long(""))])]);
    let metadata = ask(&mut client, asked).await.unwrap().dynamic_metadata.unwrap();
    let told = format!("{:?}", metadata.fields["descriptors"]);
    assert!(told.contains(r"budget=\\xff"), "{told}");
    assert!(told.contains("budget=kkk") && told.contains("…sha256:") && told.len() < 1_000, "{told}");
    assert_eq!(metadata.fields["quotaModeEnabled"].kind, Some(Kind::BoolValue(true)));
}
