//! HTTP/2 by hand, for clients that do not keep to it: frames as bytes, and calls sent in pieces.

use std::net::SocketAddr;

use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, Request, Response};
use prost::{Message, bytes::Bytes};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::helpers::PATIENCE;

/// What every client says first: that it speaks HTTP/2, and that it has no wishes.
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

/// Sends these bytes and waits until the server closes the connection; what it said meanwhile.
pub(crate) async fn until_closed(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    // The server may have closed before all is sent; that is an answer as well.
    let _ = stream.write_all(bytes).await;
    let mut heard = Vec::new();
    let closed = timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
    assert!(closed.is_ok(), "the server kept a connection that said {bytes:?}; it has said {heard:?}");
    heard
}

/// A message as gRPC frames it: not compressed, its length, itself.
pub(crate) fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    framed.extend(bytes);
    framed
}

/// A client that sends calls in pieces.
pub(crate) struct Pieces {
    calls: SendRequest<Bytes>,
}

/// A call of which the headers have been sent.
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
        let request = Request::post(format!("http://tollgate{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut calls = self.calls.clone().ready().await.unwrap();
        let (answer, body) = calls.send_request(request, false).unwrap();
        Begun { answer, body }
    }

    /// Asks with this message; the message that comes back.
    pub(crate) async fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let mut call = self.begin(METHOD).await;
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        call.send(&[&[0], &length[..], message].concat(), true);
        let mut body = timeout(PATIENCE, call.answer).await.expect("an answer in time").unwrap().into_body();
        let mut bytes = Vec::new();
        while let Some(data) = timeout(PATIENCE, body.data()).await.expect("a body in time") {
            bytes.extend(data.unwrap());
        }
        assert!(bytes.len() >= 5, "refused: {:?}", body.trailers().await);
        bytes.split_off(5)
    }

    /// Sends these bytes as the whole body; the gRPC status and message that come back.
    pub(crate) async fn call(&mut self, body: &[u8]) -> (String, String) {
        let mut call = self.begin(METHOD).await;
        call.send(body, true);
        call.status().await
    }
}

impl Begun {
    pub(crate) fn send(&mut self, bytes: &[u8], end: bool) {
        // Refused when the server has answered already; then the answer is what counts.
        let _ = self.body.send_data(Bytes::copy_from_slice(bytes), end);
    }

    /// The status, from the headers if the answer has no body, else from the trailers.
    pub(crate) async fn status(self) -> (String, String) {
        let response: Response<RecvStream> = timeout(PATIENCE, self.answer).await.expect("an answer in time").unwrap();
        if let Some(status) = status_of(response.headers()) {
            return status;
        }
        let mut body = response.into_body();
        while let Some(data) = timeout(PATIENCE, body.data()).await.expect("a body in time") {
            let length = data.unwrap().len();
            body.flow_control().release_capacity(length).unwrap();
        }
        let trailers = body.trailers().await.unwrap().expect("an answer ends with trailers");
        status_of(&trailers).expect("trailers have a status")
    }
}

fn status_of(headers: &HeaderMap) -> Option<(String, String)> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Some((text("grpc-status")?, text("grpc-message").unwrap_or_default()))
}
