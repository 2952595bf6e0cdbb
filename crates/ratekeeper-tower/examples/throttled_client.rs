//! A client that waits for permits and obeys `Retry-After`.
//!
//! The server in this program admits three requests a second. The client is configured for five, which is too many: it
//! gets a 429, all callers wait as long as its `Retry-After` asks for, and every request is served.
//!
//! `cargo run -p ratekeeper-tower --example throttled_client --features retry`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Instant;

use axum::{Router, routing::get};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{
    RateLimitLayer,
    client::{RetryAfterPolicy, ThrottleLayer},
    key,
};
use tokio::{net::TcpListener, task::JoinSet};
use tower::{BoxError, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server_limit = Limiter::builder().rule(Rule::token_bucket("three", Quota::per_second(3))).build()?;
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(server_limit, key::shared("all")));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client_limit = Limiter::builder().rule(Rule::token_bucket("five", Quota::per_second(5).burst(1))).build()?;
    let client = ServiceBuilder::new()
        .retry(RetryAfterPolicy::times(5))
        .layer(ThrottleLayer::new(client_limit))
        .map_response(move |response: http::Response<_>| {
            println!("      the server answers {}", response.status());
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
