//! Header fields in gRPC responses, which the proxy passes on to its client.

use ratekeeper_http::HeaderStyle;
use ratekeeper_server::grpc::wire::RateLimitResponse;

use crate::helpers::{Choices, Server, ask, ask_one, descriptor, passes, request};

const RULES: &str = "
domain: api
policies:
  - name: per-user
    match: { user: '*' }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 2, per: 1h }
  - name: per-tenant
    match: { tenant: '*' }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 5, per: 1h }
";

fn field<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let found: Vec<_> = response.response_headers_to_add.iter().filter(|header| header.key == name).collect();
    assert!(found.len() <= 1, "{name} occurs once: {found:?}");
    found.first().map(|header| header.value.as_str())
}

#[tokio::test]
async fn responses_have_ietf_fields_and_denials_a_retry_after() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let first = ask_one(&mut client, &[("user", "ann")]).await;
    assert_eq!(field(&first, "ratelimit-policy"), Some(r#""burst";q=2;w=3600"#));
    assert!(field(&first, "ratelimit").unwrap().starts_with(r#""burst";r=1;t="#));
    assert_eq!(field(&first, "retry-after"), None);

    ask_one(&mut client, &[("user", "ann")]).await;
    let refused = ask_one(&mut client, &[("user", "ann")]).await;
    assert!(!passes(&refused));
    let wait: u64 = field(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=1_800).contains(&wait), "a permit is refilled every half hour: {wait}");
    assert_eq!(field(&refused, "ratelimit"), Some(format!(r#""burst";r=0;t={wait}"#).as_str()));
}

#[tokio::test]
async fn header_fields_distinguish_policies() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let both = request("api", vec![descriptor(&[("user", "ann")]), descriptor(&[("tenant", "t")])]);
    let response = ask(&mut client, both).await.unwrap();
    let expected = r#""per-user/burst";q=2;w=3600, "per-tenant/burst";q=5;w=3600"#;
    assert_eq!(field(&response, "ratelimit-policy"), Some(expected));

    let shared = request("api", vec![descriptor(&[("user", "bob")]), descriptor(&[("user", "bob")])]);
    let response = ask(&mut client, shared).await.unwrap();
    assert_eq!(field(&response, "ratelimit-policy"), Some(r#""burst";q=2;w=3600"#), "one key, one set of rules");
}

#[tokio::test]
async fn the_header_style_is_configurable() {
    let server = Server::with(RULES, Choices { headers: HeaderStyle::None, ..Choices::default() }).await;
    let response = ask_one(&mut server.client().await, &[("user", "ann")]).await;
    assert_eq!(field(&response, "ratelimit"), None);
    assert_eq!(field(&response, "ratelimit-policy"), None);
}
