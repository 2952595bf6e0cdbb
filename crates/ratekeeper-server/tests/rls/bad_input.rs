//! Malformed input: a clear status or a closed connection, without effect on other clients.

use std::time::Duration;

use ratekeeper_server::{config::Bounds, grpc::wire::RateLimitRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

use crate::{
    frames::{METHOD, PREFACE, Pieces, frame, framed, until_closed},
    helpers::{Choices, Client, Server, TIMEOUT, ask, ask_one, descriptor, passes, remaining, request},
};

const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
";

/// Whether a well-behaved client is served; checked before and after malformed input.
async fn is_served(client: &mut Client) -> bool {
    let looked = request(
        "api",
        vec![ratekeeper_server::grpc::wire::RateLimitDescriptor {
            hits_addend: Some(0),
            ..descriptor(&[("user", "good")])
        }],
    );
    passes(&ask(client, looked).await.unwrap())
}

async fn refused(client: &mut Client, request: RateLimitRequest) -> (Code, String) {
    let status = ask(client, request).await.expect_err("makes no sense");
    (status.code(), status.message().to_owned())
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_remedy() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let long = "k".repeat(5_000);
    let hits = |hits| {
        let mut descriptor = descriptor(&[("user", "ann")]);
        descriptor.hits_addend = Some(hits);
        vec![descriptor]
    };
    for (what, request, part) in [
        ("no domain", request("", vec![descriptor(&[("user", "ann")])]), "the domain is empty"),
        (
            "a long domain",
            request(&long, vec![descriptor(&[("user", "ann")])]),
            "the domain is 5000 bytes long; 128 is the most",
        ),
        ("no descriptors", request("api", vec![]), "no descriptor and no key"),
        ("an empty key", request("api", vec![descriptor(&[("", "x")])]), "an empty key"),
        ("a long key", request("api", vec![descriptor(&[(&long, "x")])]), "5000 bytes long; 4096 is the most"),
        ("many entries", request("api", vec![descriptor(&[("user", "x"); 17])]), "17 entries; 16 is the most"),
        ("many descriptors", request("api", vec![descriptor(&[("user", "x")]); 65]), "65 descriptors in one request"),
        ("a huge cost", request("api", hits(u64::MAX)), "which is too large"),
    ] {
        let (code, message) = refused(&mut client, request).await;
        assert_eq!(code, Code::InvalidArgument, "{what}: {message}");
        assert!(message.contains(part), "{what}: {message}");
    }
    let response = ask_one(&mut client, &[("user", "ann")]).await;
    assert_eq!(remaining(&response), [2], "none of them was charged");
}

#[tokio::test]
async fn an_empty_value_is_a_value() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    assert_eq!(remaining(&ask_one(&mut client, &[("user", "")]).await), [2]);
}

#[tokio::test]
async fn a_message_of_megabytes_is_refused_by_its_length() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let huge = "x".repeat(4 << 20);
    let (code, message) = refused(&mut client, request("api", vec![descriptor(&[("user", &huge)])])).await;
    assert_eq!(code, Code::OutOfRange, "{message}");
    assert!(message.contains("4194304"), "the bound is named: {message}");
    assert_eq!(server.bad_requests(), 1);
    assert!(is_served(&mut client).await);
}

#[tokio::test]
async fn bodies_that_are_no_messages_get_a_status() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let mut pieces = Pieces::connect(server.address).await;
    let message = |bytes: &[u8]| {
        let mut body = vec![0];
        body.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        body.extend(bytes);
        body
    };
    let bodies = [
        ("nothing", vec![]),
        ("half a length", vec![0, 0, 0]),
        ("a length without a message", vec![0, 0, 0, 1, 0]),
        ("a length of four gigabytes", vec![0, 255, 255, 255, 255, 1]),
        ("compressed, which was not agreed", vec![1, 0, 0, 0, 1, 7]),
        ("an unknown flag", vec![9, 0, 0, 0, 0]),
        ("no protobuf", message(&[0xff; 40])),
        ("a field cut short", message(&[0x0a, 0x7f, b'a'])),
        ("a string that is no UTF-8", message(&[0x0a, 2, 0xc3, 0x28])),
        ("descriptors within descriptors", message(&[0x12, 0x04, 0x12, 0x02, 0x12, 0x00])),
        ("a number that never ends", message(&[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])),
        ("two messages", [framed(&request("api", vec![])), framed(&request("api", vec![]))].concat()),
    ];
    for (counted, (what, body)) in (1..).zip(bodies) {
        let (status, text) = pieces.call(&body).await;
        assert_ne!(status, "0", "{what} was answered as if it made sense");
        assert_ne!(status, "2", "{what}: an unspecific status: {text}");
        assert!(!text.is_empty(), "{what}: {status} without a message");
        assert_eq!(server.bad_requests(), counted, "{what} is counted: {status} {text}");
    }
    // The same connection is still usable.
    let (status, text) = pieces.call(&framed(&request("api", vec![descriptor(&[("user", "ann")])]))).await;
    assert_eq!((status.as_str(), text.as_str()), ("0", ""));
    assert!(is_served(&mut client).await);
}

#[tokio::test]
async fn an_unknown_path_is_not_implemented() {
    let server = Server::start(RULES).await;
    let mut pieces = Pieces::connect(server.address).await;
    for path in ["/", "/x", "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "/v1/check"] {
        let mut call = pieces.begin(path).await;
        call.send(&[], true);
        let (status, message) = call.status().await;
        assert_eq!(status, "12", "{path}: {message}");
    }
}

#[tokio::test]
async fn invalid_frames_close_their_connection_and_no_other() {
    let server = with(with_short_timeouts()).await;
    let after = |frames: &[u8]| [PREFACE, frames].concat();
    for (what, bytes) in [
        ("HTTP/1.1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("noise", vec![0xff; 4_096]),
        ("a TLS greeting", vec![22, 3, 1, 0, 4, 1, 0, 0, 0]),
        ("half a preface", PREFACE[..10].to_vec()),
        ("a frame of 16 megabytes", after(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])),
        ("headers on stream 0", after(&frame(1, 4, 0, &[0x82]))),
        ("headers that cannot be unpacked", after(&frame(1, 5, 1, &[0xff; 64]))),
        ("data on a stream that is not open", after(&frame(0, 0, 9, b"x"))),
        ("a window that grows by 0", after(&frame(8, 0, 0, &[0, 0, 0, 0]))),
        ("settings of five bytes", after(&frame(4, 0, 0, &[1, 2, 3, 4, 5]))),
        ("a continuation of nothing", after(&frame(9, 4, 1, &[0x82]))),
    ] {
        until_closed(server.address, &bytes).await;
        assert!(is_served(&mut server.client().await).await, "after {what}");
    }
}

#[tokio::test]
async fn an_incomplete_frame_times_out() {
    let server = with(with_short_timeouts()).await;
    // A HEADERS frame that is announced and never completed.
    let half = [PREFACE, &[0, 0, 100, 1, 4, 0, 0, 0, 1, 0x82]].concat();
    until_closed(server.address, &half).await;
    assert!(is_served(&mut server.client().await).await);
}

#[tokio::test]
async fn a_call_without_a_message_times_out() {
    let server = with(Bounds { request: Duration::from_millis(200), ..Bounds::default() }).await;
    let mut client = server.client().await;
    let mut pieces = Pieces::connect(server.address).await;
    let whole = framed(&request("api", vec![descriptor(&[("user", "ann")])]));
    let mut call = pieces.begin(METHOD).await;
    call.send(&whole[..whole.len() / 2], false);
    let (status, message) = call.status().await;
    assert_eq!(status, "4", "{message}");
    assert!(is_served(&mut client).await);
}

#[tokio::test]
async fn a_call_begun_before_the_end_is_answered_after_it() {
    let server = Server::start(RULES).await;
    let mut pieces = Pieces::connect(server.address).await;
    // An answered call proves that the server has accepted the connection before it is stopped.
    let whole = framed(&request("api", vec![descriptor(&[("user", "ann")])]));
    assert_eq!(pieces.call(&whole).await.0, "0");
    let mut call = pieces.begin(METHOD).await;
    call.send(&whole[..7], false);
    let ping = pieces.call(&whole).await;
    assert_eq!(ping.0, "0", "the half call has arrived before this one");
    server.stop();
    call.send(&whole[7..], true);
    assert_eq!(call.status().await.0, "0");
    drop(pieces);
    timeout(TIMEOUT, server.ended()).await.expect("ends when the last call has");
}

#[tokio::test]
async fn a_flood_of_connections_is_refused_and_open_ones_are_served() {
    let server = with(Bounds { connections: 20, idle: Duration::from_secs(5), ..Bounds::default() }).await;
    let mut client = server.client().await;
    assert!(is_served(&mut client).await);
    let mut flood = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(PREFACE).await;
        flood.push(stream);
        if flood.len() % 50 == 0 {
            assert!(is_served(&mut client).await, "after {} others", flood.len());
        }
    }
    // Nineteen connections are open until the idle timeout; the others were closed at once.
    for mut stream in flood {
        let mut received = Vec::new();
        let closed = timeout(TIMEOUT, stream.read_to_end(&mut received)).await;
        assert!(closed.is_ok(), "every one of them is closed");
    }
    let mut later = server.client().await;
    assert!(is_served(&mut later).await, "and there is room again");
    assert!(is_served(&mut client).await);
}

#[tokio::test]
async fn calls_above_the_bound_are_unavailable() {
    let server = Server::with(RULES, Choices { calls: 2, ..Choices::default() }).await;
    let mut pieces = Pieces::connect(server.address).await;
    let whole = framed(&request("api", vec![descriptor(&[("user", "ann")])]));
    let (mut one, mut two) = (pieces.begin(METHOD).await, pieces.begin(METHOD).await);
    let (status, message) = pieces.call(&whole).await;
    assert_eq!(status, "14", "{message}");
    for call in [&mut one, &mut two] {
        call.send(&whole, true);
    }
    assert_eq!((one.status().await.0, two.status().await.0), ("0".into(), "0".into()));
    assert_eq!(pieces.call(&whole).await.0, "0");
}

async fn with(bounds: Bounds) -> Server {
    Server::with(RULES, Choices { bounds, ..Choices::default() }).await
}

/// Timeouts short enough for a test, and long enough for a call on a busy machine.
fn with_short_timeouts() -> Bounds {
    Bounds { idle: Duration::from_secs(2), drain: Duration::from_millis(300), ..Bounds::default() }
}
