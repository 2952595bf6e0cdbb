//! Wire compatibility of our messages with those of the `envoy-types` crate, which are generated from Envoy's files.

use envoy_types::pb::{
    envoy::{
        config::core::v3 as their_core, extensions::common::ratelimit::v3 as their_descriptors,
        service::ratelimit::v3 as theirs,
    },
    google::protobuf as their_google,
};
use prost::Message;
use ratekeeper_server::grpc::wire::{
    Code, DescriptorStatus, Entry, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, RateLimitUnit, Unit,
    envoy::service::ratelimit::v3::rate_limit_response::{Quota, quota::ExpirationSpecifier},
};

/// Every field of a request, each with a different value.
#[test]
fn a_request_has_the_same_encoding() {
    let ours = RateLimitRequest {
        domain: "api".into(),
        descriptors: vec![
            RateLimitDescriptor {
                entries: vec![
                    Entry { key: "tenant".into(), value: "blue".into() },
                    Entry { key: "path".into(), value: "/ü".into() },
                ],
                limit: Some(RateLimitOverride { requests_per_unit: 41, unit: RateLimitUnit::Year.into() }),
                hits_addend: Some(1 << 40),
                is_negative_hits: true,
            },
            RateLimitDescriptor { hits_addend: Some(0), ..Default::default() },
        ],
        hits_addend: 3,
    };
    let theirs = theirs::RateLimitRequest {
        domain: "api".into(),
        descriptors: vec![
            their_descriptors::RateLimitDescriptor {
                entries: vec![
                    their_descriptors::rate_limit_descriptor::Entry { key: "tenant".into(), value: "blue".into() },
                    their_descriptors::rate_limit_descriptor::Entry { key: "path".into(), value: "/ü".into() },
                ],
                limit: Some(their_descriptors::rate_limit_descriptor::RateLimitOverride {
                    requests_per_unit: 41,
                    unit: envoy_types::pb::envoy::r#type::v3::RateLimitUnit::Year.into(),
                }),
                hits_addend: Some(their_google::UInt64Value { value: 1 << 40 }),
                is_negative_hits: true,
            },
            their_descriptors::RateLimitDescriptor {
                hits_addend: Some(their_google::UInt64Value { value: 0 }),
                ..Default::default()
            },
        ],
        hits_addend: 3,
    };
    assert_eq!(theirs::RateLimitRequest::decode(ours.encode_to_vec().as_slice()).unwrap(), theirs);
    assert_eq!(RateLimitRequest::decode(theirs.encode_to_vec().as_slice()).unwrap(), ours);
}

/// Every field of a response, each with a different value.
#[test]
fn a_response_has_the_same_encoding() {
    let header = |name: &str| HeaderValue { key: name.into(), value: "1".into(), raw_value: b"\xff".to_vec() };
    let quota = |id: &str| Quota {
        requests: 9,
        expiration_specifier: Some(ExpirationSpecifier::ValidUntil(prost_types::Timestamp { seconds: 1, nanos: 2 })),
        id: id.into(),
    };
    let text = |text: &str| prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(text.into())) };
    let ours = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![DescriptorStatus {
            code: Code::Ok.into(),
            current_limit: Some(RateLimit { requests_per_unit: 7, unit: Unit::Week.into(), name: "slow".into() }),
            limit_remaining: 6,
            duration_until_reset: Some(prost_types::Duration { seconds: 5, nanos: 4 }),
            quota: Some(quota("one")),
        }],
        response_headers_to_add: vec![header("ratelimit")],
        request_headers_to_add: vec![header("x-tier"), header("x-other")],
        raw_body: b"no".to_vec(),
        dynamic_metadata: Some(prost_types::Struct { fields: [("domain".to_owned(), text("api"))].into() }),
        quota: Some(quota("all")),
    };

    let their_header =
        |name: &str| their_core::HeaderValue { key: name.into(), value: "1".into(), raw_value: b"\xff".to_vec() };
    let their_quota = |id: &str| theirs::rate_limit_response::Quota {
        requests: 9,
        expiration_specifier: Some(theirs::rate_limit_response::quota::ExpirationSpecifier::ValidUntil(
            their_google::Timestamp { seconds: 1, nanos: 2 },
        )),
        id: id.into(),
    };
    let their_text =
        |text: &str| their_google::Value { kind: Some(their_google::value::Kind::StringValue(text.into())) };
    let theirs = theirs::RateLimitResponse {
        overall_code: theirs::rate_limit_response::Code::OverLimit.into(),
        statuses: vec![theirs::rate_limit_response::DescriptorStatus {
            code: theirs::rate_limit_response::Code::Ok.into(),
            current_limit: Some(theirs::rate_limit_response::RateLimit {
                name: "slow".into(),
                requests_per_unit: 7,
                unit: theirs::rate_limit_response::rate_limit::Unit::Week.into(),
            }),
            limit_remaining: 6,
            duration_until_reset: Some(their_google::Duration { seconds: 5, nanos: 4 }),
            quota: Some(their_quota("one")),
        }],
        response_headers_to_add: vec![their_header("ratelimit")],
        request_headers_to_add: vec![their_header("x-tier"), their_header("x-other")],
        raw_body: b"no".to_vec(),
        dynamic_metadata: Some(their_google::Struct { fields: [("domain".to_owned(), their_text("api"))].into() }),
        quota: Some(their_quota("all")),
    };
    assert_eq!(theirs::RateLimitResponse::decode(ours.encode_to_vec().as_slice()).unwrap(), theirs);
    assert_eq!(RateLimitResponse::decode(theirs.encode_to_vec().as_slice()).unwrap(), ours);
}

/// Every unit has the same name and number in both.
#[test]
fn enums_have_the_same_numbers() {
    use envoy_types::pb::envoy::r#type::v3::RateLimitUnit as TheirRequestUnit;
    use theirs::rate_limit_response::{Code as TheirCode, rate_limit::Unit as TheirUnit};
    for number in -1..20 {
        let ours = Unit::try_from(number).ok().map(|unit| unit.as_str_name().to_owned());
        let theirs = TheirUnit::try_from(number).ok().map(|unit| unit.as_str_name().to_owned());
        assert_eq!(ours, theirs, "unit {number} of a response");
        let ours = RateLimitUnit::try_from(number).ok().map(|unit| unit.as_str_name().to_owned());
        let theirs = TheirRequestUnit::try_from(number).ok().map(|unit| unit.as_str_name().to_owned());
        assert_eq!(ours, theirs, "unit {number} of a request");
        let ours = Code::try_from(number).ok().map(|code| code.as_str_name().to_owned());
        let theirs = TheirCode::try_from(number).ok().map(|code| code.as_str_name().to_owned());
        assert_eq!(ours, theirs, "code {number}");
    }
}
