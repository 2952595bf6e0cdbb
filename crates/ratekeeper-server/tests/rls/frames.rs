//! Raw HTTP/2 clients for gRPC: frames as bytes, and calls whose body is sent in pieces.

use std::net::SocketAddr;

use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, Request, Response};
use prost::{Message, bytes::Bytes};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::helpers::TIMEOUT;

/// The connection preface with empty SETTINGS.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// One frame with its true length.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends these bytes and waits until the server closes the connection. Returns what was received.
pub(crate) async fn until_closed(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut received = Vec::new();
    let closed = timeout(TIMEOUT, stream.read_to_end(&mut received)).await;
    assert!(closed.is_ok(), "the server kept a connection that sent {bytes:?}; received {received:?}");
    received
}

/// A length-prefixed gRPC message without compression.
pub(crate) fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    framed.extend(bytes);
    framed
}

/// A client that sends the bodies of calls in pieces.
pub(crate) struct Pieces {
    calls: SendRequest<Bytes>,
}

/// A call whose header fields have been sent.
pub(crate) struct Begun {
    answer: h2::client::ResponseFuture,
    body: SendStream<Bytes>,
}

impl Pieces {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        let (calls, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { calls }
    }

    pub(crate) async fn begin(&mut self, path: &str) -> Begun {
        let request = Request::post(format!("http://ratekeeper{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut calls = self.calls.clone().ready().await.unwrap();
        let (answer, body) = calls.send_request(request, false).unwrap();
        Begun { answer, body }
    }

    /// Sends a call with this message. Returns the message of the response.
    pub(crate) async fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let mut call = self.begin(METHOD).await;
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        call.send(&[&[0], &length[..], message].concat(), true);
        let mut body = timeout(TIMEOUT, call.answer).await.expect("a response in time").unwrap().into_body();
        let mut bytes = Vec::new();
        while let Some(data) = timeout(TIMEOUT, body.data()).await.expect("a body in time") {
            bytes.extend(data.unwrap());
        }
        assert!(bytes.len() >= 5, "refused: {:?}", body.trailers().await);
        bytes.split_off(5)
    }

    /// Sends these bytes as the body. Returns the gRPC status and its message.
    pub(crate) async fn call(&mut self, body: &[u8]) -> (String, String) {
        let mut call = self.begin(METHOD).await;
        call.send(body, true);
        call.status().await
    }
}

impl Begun {
    pub(crate) fn send(&mut self, bytes: &[u8], end: bool) {
        // Fails if the server has responded already; the caller checks the response.
        let _ = self.body.send_data(Bytes::copy_from_slice(bytes), end);
    }

    /// The status, from the header fields if the response has no body, else from the trailers.
    pub(crate) async fn status(self) -> (String, String) {
        let response: Response<RecvStream> = timeout(TIMEOUT, self.answer).await.expect("a response in time").unwrap();
        if let Some(status) = status_of(response.headers()) {
            return status;
        }
        let mut body = response.into_body();
        while let Some(data) = timeout(TIMEOUT, body.data()).await.expect("a body in time") {
            let length = data.unwrap().len();
            body.flow_control().release_capacity(length).unwrap();
        }
        let trailers = body.trailers().await.unwrap().expect("a response ends with trailers");
        status_of(&trailers).expect("trailers have a status")
    }
}

fn status_of(headers: &HeaderMap) -> Option<(String, String)> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Some((text("grpc-status")?, text("grpc-message").unwrap_or_default()))
}
