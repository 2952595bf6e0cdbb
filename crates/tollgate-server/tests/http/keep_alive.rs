//! Connections that stay: after an answer the next request is served, or the answer has said that it will not be.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use tollgate_server::{config::Bounds, security::Secret};

use crate::{
    bad_input::ends,
    client::{Reply, ask_on, connect, hear_on},
    desk::Desk,
};

/// A head, and after it a body of which nobody wants to know.
fn ask_with(stream: &mut TcpStream, method_and_path: &str, bytes: usize) -> std::io::Result<Reply> {
    let head = format!("{method_and_path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    for piece in vec![b'x'; bytes].chunks(10_000) {
        stream.write_all(piece)?;
    }
    hear_on(stream)
}

#[track_caller]
fn stays(server: SocketAddr, method_and_path: &str, bytes: usize, status: u16) {
    let mut stream = connect(server);
    stream.set_nodelay(true).unwrap();
    for turn in 0..60 {
        let reply = ask_with(&mut stream, method_and_path, bytes);
        let reply = reply.unwrap_or_else(|error| panic!("{method_and_path}, request {turn}: {error}"));
        assert_eq!((reply.status, reply.header("connection")), (status, None), "{method_and_path}");
    }
}

#[test]
fn a_body_that_nobody_reads_does_not_end_the_connection() {
    let desk = Desk::new();
    stays(desk.http, "POST /v1/nix", 40, 404);
    stays(desk.http, "PUT /v1/check", 40, 405);
    stays(desk.http, "POST /v1/auth?cost=0", 30_000, 200);
    stays(desk.http, "POST /v1/auth?cost=9", 65_536, 429);
    stays(desk.admin, "POST /healthz", 40, 200);
    stays(desk.admin, "POST /metrics", 30_000, 405);
    stays(desk.admin, "POST /api/switches", 30_000, 415);
}

#[test]
fn whoever_has_no_token_can_send_one_next() {
    let desk = Desk::with(|config| config.admin_token = Some(Secret::new("canary-0123456789abcdef")));
    stays(desk.admin, "POST /api/reload", 30_000, 401);
}

#[track_caller]
fn parts(server: SocketAddr, request: &str, body: &[u8], status: u16) {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    // It may well be that we are no longer listened to.
    let _ = stream.write_all(body);
    let reply = hear_on(&mut stream).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{request}");
    ends(stream);
}

#[test]
fn a_body_too_long_to_be_read_away_ends_the_connection_and_the_answer_says_so() {
    let desk = Desk::new();
    let much = vec![b'x'; 200_000];
    for (path, status) in [("/v1/check", 413), ("/v1/auth?cost=0", 200), ("/v1/nix", 404)] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n");
        parts(desk.http, &request, &much, status);
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n40000\r\n");
        parts(desk.http, &request, &much, status);
    }
    parts(desk.admin, "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n", &much, 405);
}

#[test]
fn a_body_that_does_not_come_ends_the_connection_and_the_answer_says_so() {
    let desk = Desk::with(|config| config.bounds.request = Duration::from_millis(300));
    for (path, status) in [("/v1/check", 408), ("/v1/auth?cost=0", 200)] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\n");
        parts(desk.http, &request, b"half", status);
    }
}

/// Whoever asks first whether to send the body is told no by the answer itself, and does not send it.
#[test]
fn a_body_that_is_not_wanted_is_not_asked_for() {
    let desk = Desk::new();
    let request =
        |path| format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 32\r\n\r\n");
    parts(desk.http, &request("/v1/nix"), b"", 404);
    parts(desk.http, &request("/v1/auth?cost=0"), b"", 200);
    let mut stream = connect(desk.http);
    stream.write_all(request("/v1/check").as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"domain":"api","key":"user:42"}"#).unwrap();
    let reply = hear_on(&mut stream).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (200, None));
}

/// Idle connections are borne for long, heads that do not end are not.
fn hasty() -> Desk {
    let (long, short) = (Duration::from_secs(100), Duration::from_millis(600));
    Desk::with(|config| {
        config.bounds = Bounds { first_byte: long, request: short, idle: long, ..config.bounds };
    })
}

const U: &str = r#"{"domain":"api","key":"u","cost":0}"#;

#[test]
fn a_first_head_that_does_not_end_is_closed_soon() {
    let desk = hasty();
    for port in [desk.http, desk.admin] {
        for half in ["P", "GET /v1/auth HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
            let mut stream = connect(port);
            stream.write_all(half.as_bytes()).unwrap();
            ends(stream);
        }
    }
}

#[test]
fn a_head_that_drips_in_has_one_deadline() {
    let desk = hasty();
    let mut stream = connect(desk.http);
    stream.write_all(b"GET /v1/auth HTTP/1.1\r\nx: ").unwrap();
    let drip = || thread::sleep(Duration::from_millis(50));
    let drops = (0..200).take_while(|_| (drip(), stream.write_all(b"x").is_ok()).1).count();
    assert!(drops < 200, "ten seconds of drops were taken");
}

#[test]
fn a_connection_that_rests_between_requests_is_kept_and_its_next_head_has_to_end() {
    let desk = hasty();
    let mut stream = connect(desk.http);
    for _ in 0..3 {
        assert_eq!(ask_on(&mut stream, U).unwrap().status, 200);
        thread::sleep(Duration::from_millis(1_200));
    }
    assert_eq!(ask_on(&mut stream, U).unwrap().status, 200);
    stream.write_all(b"POST /v1/ch").unwrap();
    ends(stream);
}
