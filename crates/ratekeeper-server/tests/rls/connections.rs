//! Health, reflection, idle connections and shutdown of the gRPC port.

use std::time::Duration;

use ratekeeper_server::{config::Bounds, grpc::wire::DESCRIPTORS};
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::helpers::{Choices, Server, TIMEOUT, ask_one, passes};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
";

async fn with(bounds: Bounds) -> Server {
    Server::with(RULES, Choices { bounds, ..Choices::default() }).await
}

#[tokio::test]
async fn health_is_reported_for_the_server_and_for_its_service() {
    let server = Server::start(RULES).await;
    let mut health = HealthClient::new(server.channel().await);
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    let unknown = health.check(HealthCheckRequest { service: "no.Such".into() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn a_health_watch_reports_shutdown() {
    let server = with(Bounds { drain: TIMEOUT, ..Bounds::default() }).await;
    let channel = server.channel().await;
    let mut health = HealthClient::new(channel.clone());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    server.stop();
    let next = timeout(TIMEOUT, watched.message()).await.expect("reported in time").unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    drop((watched, health, channel));
    timeout(TIMEOUT, server.ended()).await.expect("ends when the last call has");
}

#[tokio::test]
async fn a_call_longer_than_the_drain_time_is_aborted() {
    let server = with(Bounds { drain: Duration::from_millis(50), ..Bounds::default() }).await;
    let mut health = HealthClient::new(server.channel().await);
    let _watched = health.watch(HealthCheckRequest::default()).await.unwrap();
    server.stop();
    timeout(TIMEOUT, server.ended()).await.expect("ends although a watch is open");
}

#[tokio::test]
async fn reflection_lists_services_and_message_types() {
    let server = Server::start(RULES).await;
    let mut client = ServerReflectionClient::new(server.channel().await);
    let mut ask = async |request: MessageRequest| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let mut answers =
            client.server_reflection_info(tonic::codegen::tokio_stream::iter([request])).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await else {
        panic!("not a list of services")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let symbol = "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor".to_owned();
    let MessageResponse::FileDescriptorResponse(file) = ask(MessageRequest::FileContainingSymbol(symbol)).await else {
        panic!("not a file")
    };
    let file = file.file_descriptor_proto.first().unwrap();
    assert!(DESCRIPTORS.windows(file.len()).any(|window| window == file.as_slice()));
}

#[tokio::test]
async fn a_connection_without_calls_is_closed_and_others_are_served() {
    let server = with(Bounds { idle: Duration::from_secs(2), ..Bounds::default() }).await;
    let mut idle = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut received = Vec::new();
    let end = timeout(TIMEOUT, tokio::io::AsyncReadExt::read_to_end(&mut idle, &mut received)).await;
    assert!(end.is_ok(), "closed by the server");
    assert!(passes(&ask_one(&mut server.client().await, &[("user", "ann")]).await));
}
