//! The layer in an axum server on loopback, called by a hyper client.

#![allow(clippy::unwrap_used, reason = "a test stops at the unexpected")]

mod support;

use std::net::SocketAddr;

use axum::{Router, routing::get};
use http::{Request, StatusCode};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_tower::{ClientAddress, HeaderStyle, RateLimitLayer, key};
use support::{Received, Text, read};
use tokio::{net::TcpListener, task::JoinHandle};

/// An axum server that is stopped when dropped.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
    client: Client<HttpConnector, Text>,
}

impl Server {
    async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        Self { address, task, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    async fn get(&self, path: &str) -> Received {
        self.get_with(path, &[]).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Received {
        let mut request = Request::get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(self.client.request(request.body(Text::default()).unwrap()).await.unwrap()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn hourly(limit: u64) -> Limiter {
    Limiter::builder().rule(Rule::sliding_log("hour", Quota::per_hour(limit))).build().unwrap()
}

fn routes() -> Router {
    Router::new().route("/users/{id}", get(|| async { "a user" })).route("/search", get(|| async { "found" }))
}

#[tokio::test]
async fn the_peer_address_is_the_key() {
    let layer = RateLimitLayer::new(hourly(2), ClientAddress::of_peer()).headers(HeaderStyle::IetfAndX);
    let server = Server::start(routes().layer(layer)).await;

    let served = server.get("/search").await;
    assert_eq!((served.status, served.body.as_str()), (StatusCode::OK, "found"));
    assert_eq!(served.header("ratelimit"), "\"hour\";r=1;t=3600");
    assert_eq!(served.header("x-ratelimit-remaining"), "1");
    // A header field that a client can forge does not change the key.
    assert_eq!(server.get_with("/users/1", &[("x-forwarded-for", "6.6.6.6")]).await.status, StatusCode::OK);
    let refused = server.get_with("/users/1", &[("x-forwarded-for", "7.7.7.7")]).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!((3_590..=3_600).contains(&refused.seconds("retry-after")), "{refused:?}");
    assert!(refused.body.contains("\"violated-policies\":[\"hour\"]"), "{refused:?}");
}

#[tokio::test]
async fn the_address_that_the_proxy_wrote_is_the_key() {
    let layer = RateLimitLayer::new(hourly(1), ClientAddress::behind(1));
    let server = Server::start(routes().layer(layer)).await;
    for (forwarded, expected) in [
        ("203.0.113.7", StatusCode::OK),
        ("203.0.113.8", StatusCode::OK),
        ("203.0.113.8, 203.0.113.7", StatusCode::TOO_MANY_REQUESTS),
    ] {
        assert_eq!(server.get_with("/search", &[("x-forwarded-for", forwarded)]).await.status, expected);
    }
}

#[tokio::test]
async fn all_paths_of_a_route_share_a_key() {
    let per_route = key::both(key::path_template(), ClientAddress::of_peer());
    let server = Server::start(routes().layer(RateLimitLayer::new(hourly(2), per_route))).await;
    assert_eq!(server.get("/users/1").await.status, StatusCode::OK);
    assert_eq!(server.get("/users/2").await.status, StatusCode::OK);
    assert_eq!(server.get("/users/3").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(server.get("/search").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_response_has_the_fields_of_both_layers() {
    let minute = Limiter::builder().rule(Rule::sliding_log("minute", Quota::per_minute(10))).build().unwrap();
    let total = RateLimitLayer::new(minute, key::shared("all"));
    let per_client = RateLimitLayer::new(hourly(5), ClientAddress::of_peer());
    let server = Server::start(routes().layer(per_client).layer(total)).await;
    let served = server.get("/search").await;
    let lines: Vec<_> = served.headers.get_all("ratelimit").iter().map(|line| line.to_str().unwrap()).collect();
    assert_eq!(lines, ["\"hour\";r=4;t=3600", "\"minute\";r=9;t=60"]);
}
