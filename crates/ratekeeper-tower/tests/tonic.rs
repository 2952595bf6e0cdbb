//! The layer in a tonic server on loopback: the health service, called by tonic's client.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

use std::net::SocketAddr;

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{ClientAddress, RateLimitLayer, key};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Code,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

async fn serve(layer: RateLimitLayer<Limiter>) -> (SocketAddr, JoinHandle<()>) {
    let (_, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(health).serve_with_incoming(TcpIncoming::from(listener));
    (address, tokio::spawn(async move { server.await.unwrap() }))
}

async fn connect(address: SocketAddr) -> HealthClient<Channel> {
    HealthClient::new(Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap())
}

fn hourly(limit: u64) -> Limiter {
    Limiter::builder().rule(Rule::sliding_log("hour", Quota::per_hour(limit))).build().unwrap()
}

#[tokio::test]
async fn a_call_over_the_limit_fails_with_resource_exhausted() {
    let (address, server) = serve(RateLimitLayer::new(hourly(2), ClientAddress::of_peer())).await;
    let mut client = connect(address).await;
    for left in ["\"hour\";r=1;t=3600", "\"hour\";r=0;t=3600"] {
        let response = client.check(HealthCheckRequest::default()).await.unwrap();
        assert_eq!(response.metadata().get("ratelimit").unwrap(), left);
    }
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("rule \"hour\" refuses; retry in 3"), "{status:?}");
    let pushback: u64 = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert!((3_590_000..=3_600_000).contains(&pushback), "{pushback}");
    assert_eq!(status.metadata().get("ratelimit-policy").unwrap(), "\"hour\";q=2;w=3600");
    server.abort();
}

#[tokio::test]
async fn a_call_without_a_key_fails_with_invalid_argument() {
    let user = key::header(http::HeaderName::from_static("x-user"));
    let (address, server) = serve(RateLimitLayer::new(hourly(2), user)).await;
    let status = connect(address).await.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "the request has no key: it does not identify its sender")
    );
    server.abort();
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_it_ends() {
    let limiter = Limiter::builder().rule(Rule::concurrency("streams", 1, std::time::Duration::from_secs(60))).build();
    let (address, server) = serve(RateLimitLayer::new(limiter.unwrap(), ClientAddress::of_peer())).await;
    let mut client = connect(address).await;
    let mut watching = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watching.message().await.unwrap().is_some());
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);

    drop(watching);
    // The server notices the cancellation a moment later.
    while let Err(status) = client.check(HealthCheckRequest::default()).await {
        assert_eq!(status.code(), Code::ResourceExhausted);
        tokio::task::yield_now().await;
    }
    server.abort();
}
