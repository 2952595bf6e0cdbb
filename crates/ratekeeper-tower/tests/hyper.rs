//! The layer on bare hyper, where the server puts the connection's address into the request.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{ClientAddress, RateLimitLayer, key::PeerAddress};
use support::{Text, read};
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt, service_fn};

#[tokio::test]
async fn hyper_serves_a_limited_function() {
    let limiter = Limiter::builder().rule(Rule::sliding_log("hour", Quota::per_hour(1))).build().unwrap();
    let layer = RateLimitLayer::new(limiter, ClientAddress::of_peer());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let greet =
                service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(Text::from("hello"))) });
            let limited = layer.layer(greet).map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddress(peer));
                request
            });
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(limited));
            tokio::spawn(async move { connection.await.unwrap() });
        }
    });
    let client = Client::builder(TokioExecutor::new()).build_http::<Text>();
    let get = || client.get(format!("http://{address}/").parse().unwrap());
    let served = read(get().await.unwrap()).await;
    assert_eq!((served.status, served.body.as_str()), (StatusCode::OK, "hello"));
    assert_eq!(read(get().await.unwrap()).await.status, StatusCode::TOO_MANY_REQUESTS);
    server.abort();
}
