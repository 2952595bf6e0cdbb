//! Examples of `docs/rls.md`: makes every call and compares the response.
//!
//! Calls are encoded as by grpcurl, from JSON with descriptors, and share no code with the server's messages.

use prost::{Message, bytes::Bytes};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use ratekeeper_server::grpc::wire::DESCRIPTORS;
use serde_json::Value;

use crate::{
    frames::{METHOD, Pieces},
    helpers::Server,
};

const PAGE: &str = include_str!("../../../../docs/rls.md");

#[tokio::test]
async fn every_call_on_the_page_gets_the_answer_on_the_page() {
    let mut blocks = blocks(PAGE).into_iter().filter(|(language, _)| matches!(*language, "yaml" | "sh" | "json"));
    let (language, rules) = blocks.next().expect("the page has examples");
    assert_eq!(language, "yaml", "rules come first");
    let server = Server::start(rules).await;
    let mut pieces = Pieces::connect(server.address).await;
    let mut made = 0;
    while let Some((language, call)) = blocks.next() {
        let (answer_language, expected) = blocks.next().expect("every call has an answer");
        assert_eq!((language, answer_language), ("sh", "json"), "a call, then its answer: {call}");
        let expected: Value = serde_json::from_str(expected).unwrap_or_else(|error| panic!("{error}: {expected}"));
        let answer = ask(&mut pieces, call).await;
        assert!(holds(&answer, &expected), "{call}\nanswered {answer:#}\nnot {expected:#}");
        made += 1;
    }
    assert!(made >= 7, "only {made} calls were found on the page");
}

async fn ask(pieces: &mut Pieces, call: &str) -> Value {
    assert!(call.trim_end().ends_with(METHOD.trim_start_matches('/')), "{call}");
    let json = call.split('\'').nth(1).expect("a message in quotes");
    let mut reader = serde_json::Deserializer::from_str(json);
    let request = DynamicMessage::deserialize(message("RateLimitRequest"), &mut reader)
        .unwrap_or_else(|error| panic!("{error}: {json}"));
    let answer = pieces.answer(&request.encode_to_vec()).await;
    let answer = DynamicMessage::decode(message("RateLimitResponse"), Bytes::from(answer)).unwrap();
    serde_json::to_value(&answer).unwrap()
}

fn message(name: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the descriptors that reflection hands out");
    pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}")).expect("a message of the server")
}

/// Whether `expected` is contained in the response; `…` matches anything.
fn holds(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (_, Value::String(any)) if any == "…" => true,
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| holds(found, value)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| holds(found, expected))
        }
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        _ => found == expected,
    }
}

/// Fenced blocks with a language, in order.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (language, body) = after.split_once('\n').expect("a block has a body");
        let (body, after) = body.split_once("\n```").expect("a block ends");
        found.push((language, body));
        rest = after;
    }
    found
}
