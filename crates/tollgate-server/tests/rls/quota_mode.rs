//! `quota_mode`: over the limit passes, and the metadata says so.

use prost_types::{Struct, Value, value::Kind};

use crate::helpers::{Server, ask, ask_one, descriptor, passes, request};

const RULES: &str = "
domain: api
descriptors:
  - key: model
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
";

fn told(metadata: &Struct) -> String {
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
        Kind::StructValue(fields) => format!("{{{}}}", told(fields)),
        Kind::NullValue(_) => "null".into(),
    }
}

#[tokio::test]
async fn the_metadata_lists_who_is_over_a_quota_and_the_request_passes() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = || request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("model", "large")])]);
    let within = ask(&mut client, both()).await.unwrap();
    let entries = "descriptors:[{entries:[user=ann]},{entries:[model=large]}] domain:api quotaModeEnabled:true";
    assert_eq!(told(within.dynamic_metadata.as_ref().unwrap()), entries);

    let over = ask(&mut client, both()).await.unwrap();
    assert!(passes(&over), "a quota lets pass");
    let expected = format!("{entries} quotaModeViolations:[1]");
    assert_eq!(told(over.dynamic_metadata.as_ref().unwrap()), expected);
}

#[tokio::test]
async fn without_a_quota_there_is_no_metadata() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    assert_eq!(ask_one(&mut client, &[("user", "ann")]).await.dynamic_metadata, None);
}
