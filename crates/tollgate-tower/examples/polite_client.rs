//! A client that waits its turn, and obeys a server that asks for quiet.
//!
//! The server in this program lets three requests a second pass. The client is set to five a second, which is too many:
//! it is told so once, everybody holds still until the server wants to hear from them, and every request is served.
//!
//! `cargo run -p tollgate-tower --example polite_client --features retry`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Instant;

use axum::{Router, routing::get};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{Limiter, Quota, Rule};
use tollgate_tower::{
    RateLimitLayer,
    client::{PoliteLayer, RetryWhenTold},
    key,
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let strict = Limiter::builder().rule(Rule::token_bucket("three", Quota::per_second(3))).build()?;
    let app =
        Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::new(strict, key::shared("all")));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let pace = Limiter::builder().rule(Rule::token_bucket("five", Quota::per_second(5).burst(1))).build()?;
    let client = ServiceBuilder::new()
        .retry(RetryWhenTold::times(5))
        .layer(PoliteLayer::new(pace))
        .map_response(move |response: http::Response<_>| {
            println!("      the server says {}", response.status());
            response
        })
        .service(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());

    let began = Instant::now();
    let mut requests = JoinSet::new();
    for number in 1..=10 {
        let client = client.clone();
        requests.spawn(async move {
            let request = Request::get(format!("http://{address}/")).body(Empty::new())?;
            let response = client.oneshot(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            println!("{:>5} ms  request {number:>2}: {status}, {} bytes", began.elapsed().as_millis(), body.len());
            Ok::<_, BoxError>(())
        });
    }
    while let Some(outcome) = requests.join_next().await {
        outcome?.map_err(|error| error as Box<dyn std::error::Error>)?;
    }
    Ok(())
}
