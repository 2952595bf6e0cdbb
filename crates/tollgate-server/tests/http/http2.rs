//! What is different over HTTP/2: bodies nobody reads, names of hosts, connections that rest.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::{net::TcpStream, time::timeout};
use tollgate_server::config::Bounds;

use crate::desk::Desk;

/// A connection on which requests follow each other.
pub(crate) struct Two {
    requests: SendRequest<Bytes>,
    pings: h2::PingPong,
}

/// What came back, and whether every part of it was in order.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Vec<u8>, h2::Error>,
}

impl Two {
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

    pub(crate) async fn ask(&mut self, method: &str, uri: &str, body: &[u8]) -> Result<Heard, h2::Error> {
        self.ask_with(method, uri, &[], body).await
    }

    pub(crate) async fn ask_with(
        &mut self,
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Heard, h2::Error> {
        let request = Request::builder().method(method).uri(uri);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut sending) = requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        let (head, mut incoming) = timeout(PATIENCE, answer).await.expect("an answer in time")?.into_parts();
        let mut heard = Ok(Vec::new());
        while let Some(data) = timeout(PATIENCE, incoming.data()).await.expect("a body in time") {
            match (data, &mut heard) {
                (Ok(data), Ok(heard)) => heard.extend_from_slice(&data),
                (Ok(_), Err(_)) => {}
                (Err(error), _) => {
                    heard = Err(error);
                    break;
                }
            }
        }
        Ok(Heard { status: head.status.as_u16(), headers: head.headers, body: heard })
    }
}

/// A client may take the reset of a stream for a failure, though its answer was whole.
#[test]
fn a_body_that_nobody_reads_does_not_reset_the_stream() {
    let desk = Desk::new();
    desk.runtime.block_on(async {
        let (mut data, mut admin) = (Two::connect(desk.http).await, Two::connect(desk.admin).await);
        for _ in 0..20 {
            let body = [b'x'; 30_000];
            let heard = data.ask("POST", "http://localhost/v1/auth?cost=0", &body).await.unwrap();
            assert_eq!((heard.status, heard.body.unwrap().len()), (200, 0));
            let heard = data.ask("POST", "http://localhost/v1/nix", &body).await.unwrap();
            assert_eq!((heard.status, heard.body.is_ok()), (404, true));
            let heard = admin.ask("POST", "http://localhost/metrics", &body).await.unwrap();
            assert_eq!((heard.status, heard.body.is_ok()), (405, true));
        }
    });
}

/// A page of another site can point its own name here, whatever the version of HTTP.
#[test]
fn the_admin_port_is_asked_by_the_name_of_this_machine() {
    let desk = Desk::new();
    desk.runtime.block_on(async {
        let mut admin = Two::connect(desk.admin).await;
        for (host, status) in [
            ("evil.example", 403),
            ("evil.example:9090", 403),
            ("localhost", 200),
            ("127.0.0.1:9090", 200),
            ("[::1]:1", 200),
        ] {
            let heard = admin.ask("GET", &format!("http://{host}/api/state"), b"").await.unwrap();
            assert_eq!(heard.status, status, "{host}");
            assert_eq!(admin.ask("GET", &format!("http://{host}/healthz"), b"").await.unwrap().status, 200);
        }
    });
}

fn hasty() -> Desk {
    Desk::with(|config| config.bounds = Bounds { request: Duration::from_millis(1_200), ..config.bounds })
}

/// Frames that are no request pass between requests, and start no clock.
#[test]
fn a_connection_that_rests_between_requests_is_kept() {
    let desk = hasty();
    desk.runtime.block_on(async {
        let mut data = Two::connect(desk.http).await;
        for _ in 0..2 {
            let heard = data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap();
            assert_eq!(heard.status, 200);
            data.pings.ping(h2::Ping::opaque()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1_800)).await;
        }
        assert_eq!(data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap().status, 200);
    });
}

/// Pings show that somebody is there, not that anybody asks.
#[test]
fn a_connection_on_which_nothing_is_asked_is_closed_though_it_answers_pings() {
    let desk = Desk::with(|config| config.bounds = Bounds { idle: Duration::from_millis(400), ..config.bounds });
    desk.runtime.block_on(async {
        let mut data = Two::connect(desk.http).await;
        assert_eq!(data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap().status, 200);
        let closed = async { while data.pings.ping(h2::Ping::opaque()).await.is_ok() {} };
        timeout(PATIENCE, closed).await.expect("the connection ends");
    });
}

#[test]
fn a_connection_without_a_first_request_is_closed() {
    let desk = hasty();
    desk.runtime.block_on(async {
        let mut data = Two::connect(desk.http).await;
        let closed = async { while data.pings.ping(h2::Ping::opaque()).await.is_ok() {} };
        timeout(PATIENCE, closed).await.expect("the connection ends");
    });
}

const PATIENCE: Duration = Duration::from_secs(20);
