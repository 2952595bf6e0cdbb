//! Heads that proxies disagree about: without Host, with several, with bare line feeds. They are refused, and their connection ends.

use std::{
    io::{Read, Write},
    net::SocketAddr,
};

use crate::{
    client::{ask_on, connect, raw},
    desk::Desk,
    http2::Two,
};

/// Everything that comes back until the connection ends.
fn until_closed(server: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    heard
}

#[test]
fn a_head_without_a_host_or_with_several_is_refused_and_the_connection_ends() {
    let desk = Desk::new();
    let refused = [
        ("HTTP/1.1\r\n\r\n", "no Host"),
        ("HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", "several Host"),
        ("HTTP/1.1\r\nhost: localhost\r\nx: y\r\nHOST: other\r\n\r\n", "several Host"),
        ("HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", "several Host"),
        ("HTTP/1.1\r\nhost: a b\r\n\r\n", "no host with"),
        ("HTTP/1.1\r\nhost: user@localhost\r\n\r\n", "no host with"),
        ("HTTP/1.1\r\nhost: localhost/x\r\n\r\n", "no host with"),
    ];
    for (port, path) in [(desk.http, "/v1/auth?cost=0"), (desk.admin, "/healthz")] {
        for (rest, words) in refused {
            // A second request is not answered: the connection has ended.
            let bytes = format!("GET {path} {rest}GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            let heard = until_closed(port, bytes.as_bytes());
            assert_eq!(heard.matches("\r\n\r\n").count(), 1, "{rest}: {heard}");
            let reply = raw(port, format!("GET {path} {rest}").as_bytes()).unwrap();
            reply.is_problem(400, words);
            assert_eq!(reply.header("connection"), Some("close"), "{rest}");
        }
    }
    assert_eq!(desk.metric("tollgate_bad_requests_total{wire=\"http\"}"), Some(2.0 * refused.len() as f64));
}

#[test]
fn one_host_is_enough_however_it_is_written() {
    let desk = Desk::new();
    let taken = [
        "GET /v1/auth?cost=0 HTTP/1.1\r\nHoSt:localhost\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.1\r\nhost: [::1]:8080\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n",
        "GET http://localhost/v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        "GET /v1/auth?cost=0 HTTP/1.0\r\n\r\n",
        "\r\nGET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ];
    for request in taken {
        assert_eq!(raw(desk.http, request.as_bytes()).unwrap().status, 200, "{request}");
    }
}

/// Byte by byte: each CR of a head is left out in turn.
#[test]
fn a_bare_line_feed_anywhere_in_a_head_is_refused_and_the_connection_ends() {
    let desk = Desk::new();
    let body = "{\"domain\":\"api\",\"key\":\"u\",\"cost\":0}";
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nx: y\r\n\r\n", body.len());
    for at in (0..head.len()).filter(|at| head.as_bytes()[*at] == b'\r') {
        let bare = format!("{}{}{body}", &head[..at], &head[at + 1..]);
        let heard = until_closed(desk.http, format!("{bare}{head}{body}").as_bytes());
        assert!(heard.starts_with("HTTP/1.1 400 ") && heard.matches("HTTP/1.").count() == 1, "{at}: {heard}");
    }
    let reply = raw(desk.http, b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n").unwrap();
    reply.is_problem(400, "bare line feed");
    assert_eq!(reply.header("connection"), Some("close"));
}

/// Requests before it are answered as ever, and it alone is refused.
#[test]
fn a_bare_line_feed_behind_other_requests_is_found() {
    let desk = Desk::new();
    let good = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
        25\r\n{\n\"domain\":\"api\",\"key\":\"u\",\"cost\":0\n}\r\n0\r\n\r\n";
    let bare = "GET /v1/auth?cost=0 HTTP/1.1\nhost: localhost\r\n\r\n";
    let heard = until_closed(desk.http, format!("{}{bare}{good}", good.repeat(3)).as_bytes());
    assert_eq!(heard.matches("HTTP/1.1 200").count(), 3, "{heard}");
    assert_eq!(heard.matches("HTTP/1.1").count(), 4, "{heard}");
    assert!(heard.contains("HTTP/1.1 400 "), "{heard}");
}

#[test]
fn line_feeds_in_bodies_are_part_of_them() {
    let desk = Desk::new();
    let mut stream = connect(desk.http);
    for _ in 0..3 {
        let body = "\n{\n\n\"domain\":\"api\",\r\n\"key\":\"u\",\n\"cost\":0}\n\n";
        assert_eq!(ask_on(&mut stream, body).unwrap().status, 200);
    }
}

/// HTTP/2 names its host in `:authority`, and needs no field.
#[test]
fn http_2_needs_no_host_field() {
    let desk = Desk::new();
    desk.runtime.block_on(async {
        let mut data = Two::connect(desk.http).await;
        assert_eq!(data.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap().status, 200);
    });
}
