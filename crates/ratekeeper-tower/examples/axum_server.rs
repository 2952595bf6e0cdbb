//! An axum server with two limits: ten requests a second per client, and a hundred a minute on its search.
//!
//! `cargo run -p ratekeeper-tower --example axum_server --features axum`, then
//!
//! ```text
//! curl -i localhost:3000/users/42
//! for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} ' localhost:3000/users/42; done
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::net::SocketAddr;

use axum::{Router, extract::Path, routing::get};
use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{ClientAddress, HeaderStyle, RateLimitLayer, key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let per_client = Limiter::builder()
        .rule(Rule::token_bucket("burst", Quota::per_second(10).burst(20)))
        .rule(Rule::sliding_log("daily", Quota::per_day(10_000)))
        .build()?; // .store(RedisStore::connect(url).await?) to share the limit between servers
    let per_search = Limiter::builder().rule(Rule::sliding_log("search", Quota::per_minute(100))).build()?;

    // Behind two proxies this would be ClientAddress::behind(2).
    let clients = RateLimitLayer::new(per_client, ClientAddress::of_peer()).headers(HeaderStyle::IetfAndX);
    let searches = RateLimitLayer::new(per_search, key::both(key::path_template(), ClientAddress::of_peer()))
        .cost(|request| if request.uri.query().is_some_and(|query| query.contains("deep")) { 10 } else { 1 });

    let app = Router::new()
        .route("/search", get(|| async { "found nothing, but quickly\n" }))
        .layer(searches)
        .route("/users/{id}", get(|Path(id): Path<u64>| async move { format!("user {id}\n") }))
        .layer(clients);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // Provides the connection's address, which is the key.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
