//! Keep-alive: after a response the next request is served, or the response has `Connection: close`.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use ratekeeper_server::{config::Bounds, security::Secret};

use crate::{
    bad_input::ends,
    client::{Reply, connect, read_reply},
    fixture::Fixture,
};

/// Sends a header block and a body that the server does not need.
fn send_with_body(stream: &mut TcpStream, method_and_path: &str, bytes: usize) -> std::io::Result<Reply> {
    let head = format!("{method_and_path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    for piece in vec![b'x'; bytes].chunks(10_000) {
        stream.write_all(piece)?;
    }
    read_reply(stream)
}

#[track_caller]
fn is_kept(server: SocketAddr, method_and_path: &str, bytes: usize, status: u16) {
    let mut stream = connect(server);
    stream.set_nodelay(true).unwrap();
    for turn in 0..60 {
        let reply = send_with_body(&mut stream, method_and_path, bytes);
        let reply = reply.unwrap_or_else(|error| panic!("{method_and_path}, request {turn}: {error}"));
        assert_eq!((reply.status, reply.header("connection")), (status, None), "{method_and_path}");
    }
}

#[test]
fn an_unread_request_body_does_not_close_the_connection() {
    let fixture = Fixture::new();
    is_kept(fixture.http, "POST /v1/nix", 40, 404);
    is_kept(fixture.http, "PUT /v1/check", 40, 405);
    is_kept(fixture.http, "POST /v1/auth?cost=0", 30_000, 200);
    is_kept(fixture.http, "POST /v1/auth?cost=9", 65_536, 429);
    is_kept(fixture.admin, "POST /healthz", 40, 200);
    is_kept(fixture.admin, "POST /metrics", 30_000, 405);
    is_kept(fixture.admin, "POST /api/switches", 30_000, 415);
}

#[test]
fn a_connection_is_kept_after_a_missing_token() {
    let fixture = Fixture::with(|config| config.admin_token = Some(Secret::new("canary-0123456789abcdef")));
    is_kept(fixture.admin, "POST /api/reload", 30_000, 401);
}

#[track_caller]
fn is_closed(server: SocketAddr, request: &str, body: &[u8], status: u16) {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    // The server may have stopped reading.
    let _ = stream.write_all(body);
    let reply = read_reply(&mut stream).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{request}");
    ends(stream);
}

#[test]
fn a_body_too_long_to_be_discarded_closes_the_connection_with_connection_close() {
    let fixture = Fixture::new();
    let body = vec![b'x'; 200_000];
    for (path, status) in [("/v1/check", 413), ("/v1/auth?cost=0", 200), ("/v1/nix", 404)] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n");
        is_closed(fixture.http, &request, &body, status);
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n40000\r\n");
        is_closed(fixture.http, &request, &body, status);
    }
    is_closed(fixture.admin, "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n", &body, 405);
}

#[test]
fn a_body_that_does_not_arrive_closes_the_connection_with_connection_close() {
    let fixture = Fixture::with(|config| config.bounds.request = Duration::from_millis(300));
    for (path, status) in [("/v1/check", 408), ("/v1/auth?cost=0", 200)] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\n");
        is_closed(fixture.http, &request, b"half", status);
    }
}

/// A client that sends `Expect: 100-continue` gets the final response at once, and does not send the body.
#[test]
fn an_unneeded_body_is_not_requested() {
    let fixture = Fixture::new();
    let request =
        |path| format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 32\r\n\r\n");
    is_closed(fixture.http, &request("/v1/nix"), b"", 404);
    is_closed(fixture.http, &request("/v1/auth?cost=0"), b"", 200);
    let mut stream = connect(fixture.http);
    stream.write_all(request("/v1/check").as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"domain":"api","key":"user:42"}"#).unwrap();
    let reply = read_reply(&mut stream).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (200, None));
}

/// The bound of the configuration reaches both ports. The timers are tested in `listen/http/tests.rs`.
#[test]
fn an_incomplete_header_block_is_closed() {
    let (long, short) = (Duration::from_secs(100), Duration::from_millis(300));
    let fixture = Fixture::with(|config| {
        config.bounds = Bounds { first_byte: long, request: short, idle: long, ..config.bounds };
    });
    for port in [fixture.http, fixture.admin] {
        for half in ["P", "GET /v1/auth HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
            let mut stream = connect(port);
            stream.write_all(half.as_bytes()).unwrap();
            ends(stream);
        }
    }
}
