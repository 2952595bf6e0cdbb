//! Load over gRPC: messages are encoded beforehand, so that the client does little work.

use std::{net::Ipv4Addr, sync::Arc};

use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::{Message, bytes::Bytes};
use ratekeeper_server::grpc::wire::{Entry, RateLimitDescriptor, RateLimitRequest};
use tokio::net::TcpStream;

use crate::{
    Load,
    closed_loop::{Caller, KEYS, RunResult, closed_loop},
};

/// A method and its messages.
pub(crate) struct GrpcRequests {
    path: &'static str,
    bodies: Arc<[Bytes]>,
}

/// A caller on a shared connection.
struct GrpcCaller {
    client: SendRequest<Bytes>,
    path: &'static str,
    bodies: Arc<[Bytes]>,
}

/// One descriptor with one entry.
pub(crate) fn ratekeeper() -> GrpcRequests {
    let message = |key: usize| {
        let entry = Entry { key: "key".into(), value: format!("user:{key:07}").into() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        framed(&RateLimitRequest { domain: "bench".into(), descriptors: vec![descriptor], hits_addend: 1 })
    };
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    GrpcRequests { path, bodies: (0..KEYS).map(message).collect() }
}

/// The same request for throttlecrab.
pub(crate) fn throttlecrab() -> GrpcRequests {
    #[derive(Clone, PartialEq, prost::Message)]
    struct ThrottleRequest {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(int32, tag = "2")]
        max_burst: i32,
        #[prost(int32, tag = "3")]
        count_per_period: i32,
        #[prost(int32, tag = "4")]
        period: i32,
        #[prost(int32, tag = "5")]
        quantity: i32,
    }
    let message = |key: usize| {
        framed(&ThrottleRequest {
            key: format!("user:{key:07}"),
            max_burst: 1_000_000,
            count_per_period: 1_000_000,
            period: 1,
            quantity: 1,
        })
    };
    GrpcRequests { path: "/throttlecrab.RateLimiter/Throttle", bodies: (0..KEYS).map(message).collect() }
}

pub(crate) async fn run(port: u16, requests: &GrpcRequests, load: Load) -> RunResult {
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let caller =
            || GrpcCaller { client: client.clone(), path: requests.path, bodies: Arc::clone(&requests.bodies) };
        callers.extend((0..load.in_flight).map(|_| caller()));
    }
    closed_loop(callers, load.time).await
}

impl Caller for GrpcCaller {
    async fn ask(&mut self, key: usize) {
        call(&mut self.client, self.path, self.bodies[key].clone()).await;
    }
}

async fn call(client: &mut SendRequest<Bytes>, path: &str, message: Bytes) {
    let request = Request::post(format!("http://bench{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let mut ready = client.clone().ready().await.expect("an open connection");
    let (response, mut sending) = ready.send_request(request, false).expect("a stream");
    sending.send_data(message, true).expect("room for a small message");
    let mut body = response.await.expect("a response").into_body();
    while let Some(data) = body.data().await {
        let length = data.expect("a message").len();
        body.flow_control().release_capacity(length).expect("the capacity of the frame");
    }
    let trailers = body.trailers().await.expect("an end").unwrap_or_else(HeaderMap::new);
    assert_eq!(
        trailers.get("grpc-status").map(|status| status.as_bytes()),
        Some(&b"0"[..]),
        "a response without error"
    );
}

fn framed(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).expect("a small message").to_be_bytes();
    [&[0], &length[..], &bytes].concat().into()
}
