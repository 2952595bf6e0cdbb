//! HTTP/2 on real sockets: unread request bodies, host names, idle connections.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use ratekeeper_server::config::Bounds;
use tokio::{net::TcpStream, time::timeout};

use crate::fixture::Fixture;

/// A connection that sends one request after another.
pub(crate) struct Http2Client {
    requests: SendRequest<Bytes>,
    pings: h2::PingPong,
}

/// A response, and whether its stream ended without an error.
#[derive(Debug)]
pub(crate) struct Http2Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Vec<u8>, h2::Error>,
}

impl Http2Client {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        let (requests, mut connection) = h2::client::handshake(stream).await.unwrap();
        let pings = connection.ping_pong().unwrap();
        tokio::spawn(connection);
        Self { requests, pings }
    }

    pub(crate) async fn ping(&mut self) {
        self.pings.ping(h2::Ping::opaque()).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, method: &str, uri: &str, body: &[u8]) -> Result<Http2Response, h2::Error> {
        self.ask_with(method, uri, &[], body).await
    }

    pub(crate) async fn ask_with(
        &mut self,
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Http2Response, h2::Error> {
        let request = Request::builder().method(method).uri(uri);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut sending) = requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        let (head, mut incoming) = timeout(TIME_LIMIT, response).await.expect("a response in time")?.into_parts();
        let mut received = Ok(Vec::new());
        while let Some(data) = timeout(TIME_LIMIT, incoming.data()).await.expect("a body in time") {
            match (data, &mut received) {
                (Ok(data), Ok(received)) => {
                    received.extend_from_slice(&data);
                    let _ = incoming.flow_control().release_capacity(data.len());
                }
                (Ok(_), Err(_)) => {}
                (Err(error), _) => {
                    received = Err(error);
                    break;
                }
            }
        }
        Ok(Http2Response { status: head.status.as_u16(), headers: head.headers, body: received })
    }
}

/// Clients may treat a stream reset as a failure although the response was complete.
#[test]
fn an_unread_request_body_does_not_reset_the_stream() {
    let fixture = Fixture::new();
    fixture.runtime.block_on(async {
        let (mut data, mut admin) =
            (Http2Client::connect(fixture.http).await, Http2Client::connect(fixture.admin).await);
        for _ in 0..20 {
            let body = [b'x'; 30_000];
            let response = data.ask("POST", "http://localhost/v1/auth?cost=0", &body).await.unwrap();
            assert_eq!((response.status, response.body.unwrap().len()), (200, 0));
            let response = data.ask("POST", "http://localhost/v1/nix", &body).await.unwrap();
            assert_eq!((response.status, response.body.is_ok()), (404, true));
            let response = admin.ask("POST", "http://localhost/metrics", &body).await.unwrap();
            assert_eq!((response.status, response.body.is_ok()), (405, true));
        }
    });
}

/// DNS rebinding: a page of another site can resolve its host name to this machine, over any version of HTTP.
#[test]
fn the_admin_port_accepts_only_host_names_of_this_machine() {
    let fixture = Fixture::new();
    fixture.runtime.block_on(async {
        let mut admin = Http2Client::connect(fixture.admin).await;
        for (host, status) in [
            ("evil.example", 403),
            ("evil.example:9090", 403),
            ("localhost", 200),
            ("127.0.0.1:9090", 200),
            ("[::1]:1", 200),
        ] {
            let response = admin.ask("GET", &format!("http://{host}/api/state"), b"").await.unwrap();
            assert_eq!(response.status, status, "{host}");
            assert_eq!(admin.ask("GET", &format!("http://{host}/healthz"), b"").await.unwrap().status, 200);
        }
    });
}

/// PINGs show that a peer is alive, not that it sends requests. The timers are tested in `listen/http/tests.rs`.
#[test]
fn a_connection_without_requests_is_closed_although_pings_are_acknowledged() {
    let fixture = Fixture::with(|config| config.bounds = Bounds { idle: Duration::from_millis(400), ..config.bounds });
    fixture.runtime.block_on(async {
        let mut data = Http2Client::connect(fixture.http).await;
        assert_eq!(data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap().status, 200);
        let closed = async { while data.pings.ping(h2::Ping::opaque()).await.is_ok() {} };
        timeout(TIME_LIMIT, closed).await.expect("the connection is closed");
    });
}

/// Far above what a response takes on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(20);
