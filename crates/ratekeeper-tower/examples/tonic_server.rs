//! A tonic server whose health service answers five calls a second per client; then RESOURCE_EXHAUSTED.
//!
//! `cargo run -p ratekeeper-tower --example tonic_server --features tonic`
//!
//! It calls itself eight times and prints the results, then keeps serving if an address was given.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{ClientAddress, RateLimitLayer};
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder().rule(Rule::token_bucket("calls", Quota::per_second(5))).build()?;
    let layer = RateLimitLayer::new(limiter, ClientAddress::of_peer());

    let listen = std::env::args().nth(1);
    let listener = TcpListener::bind(listen.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}");
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health).serve_with_incoming(TcpIncoming::from(listener));
    let server = tokio::spawn(server);

    let mut client = HealthClient::new(Endpoint::new(format!("http://{address}"))?.connect().await?);
    for call in 1..=8 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(response) => println!("call {call}: served, {:?}", response.metadata().get("ratelimit")),
            Err(status) => println!("call {call}: {:?}, {}", status.code(), status.message()),
        }
    }
    if listen.is_some() {
        server.await??;
    }
    Ok(())
}
