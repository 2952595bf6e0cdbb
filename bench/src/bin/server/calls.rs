//! Load over gRPC: HTTP/2 frames made beforehand, so that the client does as little as it can.

use std::{net::Ipv4Addr, sync::Arc};

use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::{Message, bytes::Bytes};
use tokio::net::TcpStream;
use tollgate_server::grpc::wire::{Entry, RateLimitDescriptor, RateLimitRequest};

use crate::{
    Load,
    seen::{Caller, KEYS, Seen, closed_loop},
};

/// What is called, and with which messages.
pub(crate) struct Calls {
    path: &'static str,
    bodies: Arc<[Bytes]>,
}

/// One of those who call on a connection.
struct Call {
    client: SendRequest<Bytes>,
    path: &'static str,
    bodies: Arc<[Bytes]>,
}

/// One descriptor with one entry.
pub(crate) fn ours() -> Calls {
    let message = |key: usize| {
        let entry = Entry { key: "key".into(), value: format!("user:{key:07}").into() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        framed(&RateLimitRequest { domain: "bench".into(), descriptors: vec![descriptor], hits_addend: 1 })
    };
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    Calls { path, bodies: (0..KEYS).map(message).collect() }
}

/// The same question in throttlecrab's words.
pub(crate) fn crab() -> Calls {
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
    Calls { path: "/throttlecrab.RateLimiter/Throttle", bodies: (0..KEYS).map(message).collect() }
}

pub(crate) async fn run(port: u16, calls: &Calls, load: Load) -> Seen {
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let one = || Call { client: client.clone(), path: calls.path, bodies: Arc::clone(&calls.bodies) };
        callers.extend((0..load.in_flight).map(|_| one()));
    }
    closed_loop(callers, load.time).await
}

impl Caller for Call {
    async fn ask(&mut self, key: usize) {
        call(&mut self.client, self.path, self.bodies[key].clone()).await;
    }
}

async fn call(client: &mut SendRequest<Bytes>, path: &str, body: Bytes) {
    let request = Request::post(format!("http://bench{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let mut ready = client.clone().ready().await.expect("a connection that lives");
    let (answer, mut sending) = ready.send_request(request, false).expect("a stream");
    sending.send_data(body, true).expect("room for a small message");
    let mut answer = answer.await.expect("an answer").into_body();
    while let Some(data) = answer.data().await {
        let length = data.expect("a message").len();
        answer.flow_control().release_capacity(length).expect("what was lent");
    }
    let trailers = answer.trailers().await.expect("an end").unwrap_or_else(HeaderMap::new);
    assert_eq!(trailers.get("grpc-status").map(|status| status.as_bytes()), Some(&b"0"[..]), "an answer, not an error");
}

fn framed(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).expect("a small message").to_be_bytes();
    [&[0], &length[..], &bytes].concat().into()
}
