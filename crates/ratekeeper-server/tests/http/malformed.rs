//! Malformed HTTP/1 requests: without Host, with several Host fields, with bare line feeds. They get 400 and close the
//! connection.

use std::{
    io::{Read, Write},
    net::SocketAddr,
};

use crate::{
    client::{ask_on, connect, raw},
    fixture::Fixture,
    http2::Http2Client,
};

/// Everything received until the connection is closed.
fn until_closed(server: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

#[test]
fn a_missing_or_repeated_host_is_refused_and_closes_the_connection() {
    let fixture = Fixture::new();
    let refused = [
        ("HTTP/1.1\r\n\r\n", "no Host"),
        ("HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", "several Host"),
        ("HTTP/1.1\r\nhost: localhost\r\nx: y\r\nHOST: other\r\n\r\n", "several Host"),
        ("HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", "several Host"),
        ("HTTP/1.1\r\nhost: a b\r\n\r\n", "no host with"),
        ("HTTP/1.1\r\nhost: user@localhost\r\n\r\n", "no host with"),
        ("HTTP/1.1\r\nhost: localhost/x\r\n\r\n", "no host with"),
    ];
    for (port, path) in [(fixture.http, "/v1/auth?cost=0"), (fixture.admin, "/healthz")] {
        for (rest, words) in refused {
            // The second request is not answered.
            let bytes = format!("GET {path} {rest}GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            let received = until_closed(port, bytes.as_bytes());
            assert_eq!(received.matches("\r\n\r\n").count(), 1, "{rest}: {received}");
            let reply = raw(port, format!("GET {path} {rest}").as_bytes()).unwrap();
            reply.is_problem(400, words);
            assert_eq!(reply.header("connection"), Some("close"), "{rest}");
        }
    }
    assert_eq!(fixture.metric("ratekeeper_bad_requests_total{wire=\"http\"}"), Some(2.0 * refused.len() as f64));
}

#[test]
fn valid_host_fields_are_accepted() {
    let fixture = Fixture::new();
    let accepted = [
        "GET /v1/auth?cost=0 HTTP/1.1\r\nHoSt:localhost\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.1\r\nhost: [::1]:8080\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n",
        "GET http://localhost/v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.0\r\n\r\n",
        "\r\nGET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ];
    for request in accepted {
        assert_eq!(raw(fixture.http, request.as_bytes()).unwrap().status, 200, "{request}");
    }
}

/// Each CR of a header block is left out in turn.
#[test]
fn a_bare_line_feed_anywhere_in_a_header_block_is_refused_and_closes_the_connection() {
    let fixture = Fixture::new();
    let body = "{\"domain\":\"api\",\"key\":\"u\",\"cost\":0}";
    let block = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nx: y\r\n\r\n", body.len());
    for at in (0..block.len()).filter(|at| block.as_bytes()[*at] == b'\r') {
        let bare = format!("{}{}{body}", &block[..at], &block[at + 1..]);
        let received = until_closed(fixture.http, format!("{bare}{block}{body}").as_bytes());
        assert!(received.starts_with("HTTP/1.1 400 ") && received.matches("HTTP/1.").count() == 1, "{at}: {received}");
    }
    let reply = raw(fixture.http, b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n").unwrap();
    reply.is_problem(400, "bare line feed");
    assert_eq!(reply.header("connection"), Some("close"));
}

/// Pipelined requests before it are answered.
#[test]
fn a_bare_line_feed_after_other_requests_is_found() {
    let fixture = Fixture::new();
    let good = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
        25\r\n{\n\"domain\":\"api\",\"key\":\"u\",\"cost\":0\n}\r\n0\r\n\r\n";
    let bare = "GET /v1/auth?cost=0 HTTP/1.1\nhost: localhost\r\n\r\n";
    let received = until_closed(fixture.http, format!("{}{bare}{good}", good.repeat(3)).as_bytes());
    assert_eq!(received.matches("HTTP/1.1 200").count(), 3, "{received}");
    assert_eq!(received.matches("HTTP/1.1").count(), 4, "{received}");
    assert!(received.contains("HTTP/1.1 400 "), "{received}");
}

#[test]
fn line_feeds_in_bodies_are_accepted() {
    let fixture = Fixture::new();
    let mut stream = connect(fixture.http);
    for _ in 0..3 {
        let body = "\n{\n\n\"domain\":\"api\",\r\n\"key\":\"u\",\n\"cost\":0}\n\n";
        assert_eq!(ask_on(&mut stream, body).unwrap().status, 200);
    }
}

/// HTTP/2 has `:authority` instead of Host.
#[test]
fn http_2_needs_no_host_field() {
    let fixture = Fixture::new();
    fixture.runtime.block_on(async {
        let mut data = Http2Client::connect(fixture.http).await;
        assert_eq!(data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap().status, 200);
    });
}
