//! Rate limit header fields, parsed by a structured-fields library that shares no code with the writer.

use ratekeeper_http::HeaderStyle;
use sfv::{BareItem, List, ListEntry, Parser};

use crate::fixture::Fixture;

fn list(text: &str) -> List {
    Parser::new(text).parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A parameter of a rule's list item.
fn parameter(list: &List, rule: &str, name: &str) -> Option<i64> {
    list.iter().find_map(|entry| {
        let ListEntry::Item(item) = entry else { panic!("a list within the list") };
        let BareItem::String(found) = &item.bare_item else { panic!("a name that is no string") };
        if found.as_str() != rule {
            return None;
        }
        match item.params.iter().find(|(key, _)| key.as_str() == name)?.1 {
            BareItem::Integer(number) => Some(i64::from(*number)),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn allowed_and_refused_requests_carry_fields_of_draft_11() {
    let fixture = Fixture::new();
    let ask = || fixture.post("/v1/check", r#"{"domain":"api","descriptor":{"user":"u"},"cost":6}"#);
    let reply = ask();
    let policy = list(reply.header("ratelimit-policy").unwrap());
    assert_eq!((parameter(&policy, "hour", "q"), parameter(&policy, "hour", "w")), (Some(10), Some(3_600)));
    assert_eq!(policy.len(), 1, "rules that only watch are not shown");
    let field = list(reply.header("ratelimit").unwrap());
    assert_eq!(parameter(&field, "hour", "r"), Some(4));
    assert_eq!(reply.header("retry-after"), None);

    let denied = ask();
    let window = parameter(&list(denied.header("ratelimit").unwrap()), "hour", "t").unwrap();
    let retry: i64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!(window > 0 && window <= retry, "Retry-After is not earlier than the end of t");
    let wait = denied.json()["retry_after_us"].as_i64().unwrap();
    assert!(retry * 1_000_000 >= wait && (retry - 1) * 1_000_000 < wait, "rounded up to the second");
}

#[test]
fn other_header_styles_can_be_configured() {
    let fixture = Fixture::with(|config| config.headers = HeaderStyle::IetfAndX);
    let reply = fixture.post("/v1/check", r#"{"domain":"api","key":"u"}"#);
    assert_eq!((reply.header("x-ratelimit-limit"), reply.header("x-ratelimit-remaining")), (Some("3"), Some("2")));
    assert!(reply.header("ratelimit").is_some());
    let fixture = Fixture::with(|config| config.headers = HeaderStyle::None);
    let reply = fixture.post("/v1/check", r#"{"domain":"api","key":"u"}"#);
    assert!(reply.headers.iter().all(|(name, _)| !name.contains("ratelimit")), "{reply:?}");
}
