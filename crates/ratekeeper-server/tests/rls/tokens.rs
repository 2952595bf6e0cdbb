//! Bearer tokens on the gRPC wire: authentication and domain permissions.

use std::io::Write;

use ratekeeper_server::{
    grpc::wire::RateLimitRequest,
    security::{Access, Tokens},
};
use tonic::{Code, Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::helpers::{Choices, Client, Server, descriptor, request};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
";

async fn server() -> Server {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "edge 0123456789abcdef api\nops fedcba9876543210 *").unwrap();
    let access = Access::by(Tokens::read(file.path()).unwrap());
    Server::with(RULES, Choices { access, ..Choices::default() }).await
}

async fn ask_with(client: &mut Client, authorization: Option<&str>, domain: &str) -> Result<(), Status> {
    let mut request: Request<RateLimitRequest> = Request::new(request(domain, vec![descriptor(&[("user", "ann")])]));
    if let Some(value) = authorization {
        request.metadata_mut().insert("authorization", value.parse().unwrap());
    }
    client.should_rate_limit(request).await.map(drop)
}

#[tokio::test]
async fn a_token_gives_access_to_its_domains_only() {
    let server = server().await;
    let mut client = server.client().await;
    ask_with(&mut client, Some("Bearer 0123456789abcdef"), "api").await.unwrap();
    ask_with(&mut client, Some("bearer fedcba9876543210"), "any").await.unwrap();
    let other = ask_with(&mut client, Some("Bearer 0123456789abcdef"), "other").await.unwrap_err();
    assert_eq!(other.code(), Code::PermissionDenied);
    for wrong in [None, Some("Bearer 0123456789abcdeX"), Some("0123456789abcdef"), Some("Basic 0123456789abcdef")] {
        let status = ask_with(&mut client, wrong, "api").await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{wrong:?}");
        assert!(!status.message().contains("0123"), "no token is repeated: {status}");
    }
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = server().await;
    let mut health = HealthClient::new(server.channel().await);
    health.check(HealthCheckRequest::default()).await.unwrap();
}
