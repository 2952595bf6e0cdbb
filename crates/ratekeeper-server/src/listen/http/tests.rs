//! HTTP connections over in-memory streams, on the paused clock.

use std::time::Duration;

use h2::client::{self, SendRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::Instant,
};

use super::*;
use crate::{
    listen::{
        ConnectionIo,
        port_budget::PortBudget,
        stall_detector::{Registration, StallDetector},
        transport::Transport,
    },
    shutdown::{self, Stopper},
    telemetry::Wire,
};

const SECOND: Duration = Duration::from_secs(1);
const BODY_BYTES: usize = 60_000;

/// The server's side of a connection; its task returns when it ended.
struct Served {
    ended: JoinHandle<Duration>,
    account: Account,
    _registration: Registration,
    stopper: Stopper,
}

/// Serves a connection whose responses have a body of 60 000 bytes.
fn serve_in_memory(bounds: Bounds) -> (DuplexStream, Served) {
    let (server, client) = duplex(1 << 20);
    let budget = PortBudget::new(Wire::Http, &bounds, &Arc::default());
    let stalls = StallDetector::new(budget, bounds.stall);
    let (account, _registration) = stalls.register();
    tokio::spawn(stalls.run());
    let (stopper, shutdown) = shutdown::channel();
    let connection = Connection {
        stream: ConnectionIo::new(Transport::Memory(server), bounds.first_byte, bounds.idle),
        peer: ([127, 0, 0, 1], 1).into(),
        account: account.clone(),
    };
    let service = service_fn(|_| async { Ok(Response::new(Full::new(Bytes::from_static(&[b'x'; BODY_BYTES])))) });
    let start = Instant::now();
    let ended = tokio::spawn(async move {
        serve_http(connection, service, bounds, shutdown).await;
        start.elapsed()
    });
    (client, Served { ended, account, _registration, stopper })
}

/// A short time limit for header blocks, long ones for everything else.
fn short_header_limit() -> Bounds {
    Bounds { first_byte: 100 * SECOND, request: SECOND, idle: 100 * SECOND, ..Bounds::default() }
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_first_header_block_is_closed_after_its_time_limit() {
    for half in ["P", "GET / HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
        let (mut client, served) = serve_in_memory(short_header_limit());
        client.write_all(half.as_bytes()).await.unwrap();
        let ended = served.ended.await.unwrap();
        assert!((SECOND..=3 * SECOND).contains(&ended), "{half}: {ended:?}");
    }
}

/// Sends one request on a kept connection and reads its response.
async fn request(client: &mut DuplexStream) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(&[b'x'; BODY_BYTES]) {
        assert_ne!(client.read_buf(&mut response).await.unwrap(), 0, "closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_between_requests_and_its_next_header_block_has_the_time_limit() {
    let (mut client, served) = serve_in_memory(short_header_limit());
    for _ in 0..3 {
        request(&mut client).await;
        sleep(90 * SECOND).await;
    }
    client.write_all(b"POST /v1/ch").await.unwrap();
    let ended = served.ended.await.unwrap();
    assert!((271 * SECOND..=273 * SECOND).contains(&ended), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed() {
    let (mut client, served) = serve_in_memory(short_header_limit());
    request(&mut client).await;
    let ended = served.ended.await.unwrap();
    assert!((100 * SECOND..=102 * SECOND).contains(&ended), "{ended:?}");
}

/// An HTTP/2 client that acknowledges PINGs.
struct Http2Client {
    requests: SendRequest<Bytes>,
    pings: h2::PingPong,
}

impl Http2Client {
    /// With the initial window of a stream.
    async fn connect(client: DuplexStream, window: u32) -> Self {
        let mut builder = client::Builder::new();
        let (requests, mut connection) = builder.initial_window_size(window).handshake(client).await.unwrap();
        let pings = connection.ping_pong().unwrap();
        tokio::spawn(connection);
        Self { requests, pings }
    }

    /// A response whose body has not been read.
    async fn send(&mut self) -> Result<h2::RecvStream, h2::Error> {
        let request = Request::get("http://localhost/").body(()).unwrap();
        let (response, _) = self.requests.clone().ready().await?.send_request(request, true)?;
        Ok(response.await?.into_body())
    }

    /// Reads a response, granting window after a pause for each DATA frame.
    async fn receive(&mut self, pause: Duration) -> Result<usize, h2::Error> {
        let (mut body, mut length) = (self.send().await?, 0);
        while let Some(data) = body.data().await {
            length += data.as_ref().map_or(0, Bytes::len);
            sleep(pause).await;
            body.flow_control().release_capacity(data?.len())?;
        }
        Ok(length)
    }

    /// PINGs until the connection is closed.
    async fn ping_until_closed(&mut self) {
        while self.pings.ping(h2::Ping::opaque()).await.is_ok() {
            sleep(SECOND / 2).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn control_frames_between_http_2_requests_start_no_header_timeout() {
    let (client, _served) = serve_in_memory(short_header_limit());
    let mut client = Http2Client::connect(client, 65_535).await;
    for _ in 0..3 {
        assert_eq!(client.receive(Duration::ZERO).await.unwrap(), BODY_BYTES);
        client.pings.ping(h2::Ping::opaque()).await.unwrap();
        sleep(50 * SECOND).await;
    }
}

/// PINGs show that a peer is alive, not that it sends requests.
#[tokio::test(start_paused = true)]
async fn an_http_2_connection_without_requests_is_closed_although_pings_are_acknowledged() {
    let (client, served) = serve_in_memory(short_header_limit());
    let mut client = Http2Client::connect(client, 65_535).await;
    client.receive(Duration::ZERO).await.unwrap();
    client.ping_until_closed().await;
    let ended = served.ended.await.unwrap();
    assert!((100 * SECOND..=215 * SECOND).contains(&ended), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_http_2_connection_without_a_first_request_is_closed() {
    let (client, served) = serve_in_memory(short_header_limit());
    Http2Client::connect(client, 65_535).await.ping_until_closed().await;
    let ended = served.ended.await.unwrap();
    assert!((SECOND..=3 * SECOND).contains(&ended), "{ended:?}");
}

/// The response takes many times the stall time of five seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_client_that_keeps_reading_gets_its_response() {
    let (client, served) = serve_in_memory(Bounds::default());
    let mut client = Http2Client::connect(client, 8_192).await;
    let start = Instant::now();
    let length = client.receive(4 * SECOND).await.unwrap();
    assert_eq!(length, BODY_BYTES);
    assert!(start.elapsed() > 20 * SECOND, "{:?}", start.elapsed());
    assert_eq!(served.account.close_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_closed_after_the_stall_time() {
    let (client, served) = serve_in_memory(Bounds::default());
    let _unread = Http2Client::connect(client, 8_192).await.send().await.unwrap();
    let ended = served.ended.await.unwrap();
    assert!((4 * SECOND..=7 * SECOND).contains(&ended), "{ended:?}");
}

/// The first request after shutdown has begun is answered, and then the idle connection is closed.
#[tokio::test(start_paused = true)]
async fn shutdown_answers_a_request_that_was_sent_before_the_client_could_know() {
    let (mut client, served) = serve_in_memory(Bounds::default());
    request(&mut client).await;
    served.stopper.stop();
    sleep(SECOND / 2).await;
    request(&mut client).await;
    let ended = served.ended.await.unwrap();
    assert!((SECOND..=3 * SECOND).contains(&ended), "{ended:?}");
}
