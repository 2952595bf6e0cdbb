//! Unread HTTP/2 responses: their memory is bounded, and their connections are closed.

use std::{thread, time::Duration};

use ratekeeper_server::config::Bounds;
use ratekeeper_testkit::servers::wait_until;

use crate::{
    client::connect,
    fixture::Fixture,
    flood::{FloodedServer, WIRES, exchange, good_request},
    frames::{END_STREAM, ENHANCE_YOUR_CALM, Frame, Frames, HEADERS, WINDOW_UPDATE, frame, request},
};

/// A request that needs no token and has a response with a body.
fn request_to(wire: usize, stream: u32) -> Vec<u8> {
    match WIRES[wire] {
        "http" => request(stream, "POST", "/v1/check", &[], Some(br#"{"domain":"api","key":"u","cost":0}"#)),
        "admin" => request(stream, "GET", "/nix", &[], None),
        _ => {
            let fields = [("content-type", "application/grpc"), ("te", "trailers")];
            let body = b"\0\0\0\0\x15\x0a\x03api\x12\x0e\x0a\x0c\x0a\x04user\x12\x04u123";
            request(stream, "POST", SHOULD_RATE_LIMIT, &fields, Some(body))
        }
    }
}

/// Many connections open streams without a window and acknowledge PINGs.
#[test]
fn responses_without_a_window_are_bounded_in_memory_and_good_clients_are_served() {
    for wire in [0, 1, 3] {
        let server = FloodedServer::with_max_connections(ATTACKERS + 10);
        let mut watcher = connect(server.address(3));
        // A good client on a kept connection.
        let mut good = (WIRES[wire] != "grpc").then(|| connect(server.address(wire)));
        let before = server.process.resident_bytes();
        let mut attackers = Vec::new();
        for _ in 0..ATTACKERS {
            let mut attacker = Frames::connect(server.address(wire), 0).unwrap();
            let requests: Vec<u8> = (0..STREAMS).flat_map(|stream| request_to(wire, 2 * stream + 1)).collect();
            let _ = attacker.send(&requests);
            // Reads frames and acknowledges PINGs, but grants no window.
            attackers.push(thread::spawn(move || while attacker.next().is_ok() {}));
            if let Some(good) = &mut good {
                let (request, until) = good_request(wire);
                exchange(good, request, until);
            }
        }
        drop(good);
        let mut peak = 0;
        wait_until("stalled connections are closed", Duration::from_secs(60), || {
            peak = peak.max(server.process.resident_bytes());
            server.metric(&mut watcher, "ratekeeper_connections", wire) <= if wire == 3 { 1.0 } else { 0.0 }
        });
        let grown = peak.saturating_sub(before) >> 20;
        assert!(grown < 48, "{grown} MiB more for unread responses at {}", WIRES[wire]);
        wait_until("their charges are returned", Duration::from_secs(20), || {
            server.metric(&mut watcher, "ratekeeper_pending_bytes", wire) < 100_000.0
        });
        attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
    }
}

fn short_stall_time() -> Fixture {
    Fixture::with(|config| config.bounds = Bounds { stall: Duration::from_millis(500), ..config.bounds })
}

#[test]
fn a_connection_that_reads_no_response_is_closed_with_goaway() {
    let fixture = short_stall_time();
    for address in [fixture.http, fixture.admin] {
        let mut client = Frames::connect(address, 0).unwrap();
        client.send(&request(1, "GET", "/nix", &[], None)).unwrap();
        assert_eq!(client.goaway_code(), Some(ENHANCE_YOUR_CALM));
    }
    for wire in ["http", "admin"] {
        let closed = format!("ratekeeper_closed_connections_total{{wire=\"{wire}\",reason=\"stalled\"}}");
        assert_eq!(fixture.metric(&closed), Some(1.0));
    }
}

/// One byte now and then does not restart the stall time.
#[test]
fn granting_one_byte_at_a_time_does_not_keep_a_connection_open() {
    let fixture = short_stall_time();
    let mut client = Frames::connect(fixture.http, 0).unwrap();
    client.send(&request(1, "GET", "/v1/openapi.json", &[], None)).unwrap();
    let mut writer = client.stream.try_clone().unwrap();
    let drip = thread::spawn(move || {
        while std::io::Write::write_all(&mut writer, &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(client.goaway_code(), Some(ENHANCE_YOUR_CALM));
    drop(client);
    drip.join().unwrap();
}

/// Above its share a connection is refused with header fields alone, which need no window, before a decision.
#[test]
fn requests_above_the_budget_are_refused_before_they_are_decided() {
    let fixture = Fixture::with(|config| config.bounds = Bounds { pending_bytes: 64 << 10, ..config.bounds });
    let mut client = Frames::connect(fixture.http, 0).unwrap();
    let body = br#"{"domain":"api","descriptor":{"user":"u"},"cost":1}"#;
    let requests: Vec<u8> = (0..200).flat_map(|n| request(2 * n + 1, "POST", "/v1/check", &[], Some(body))).collect();
    client.send(&requests).unwrap();
    let (mut admitted, mut refused) = (0, 0);
    while admitted + refused < 200 {
        let Frame { kind, flags, .. } = client.next().unwrap();
        if kind == HEADERS && flags & END_STREAM != 0 {
            refused += 1;
        } else if kind == HEADERS {
            admitted += 1;
        }
    }
    assert!((4..=16).contains(&admitted), "{admitted} are admitted");
    assert_eq!(fixture.metric("ratekeeper_refused_requests_total{wire=\"http\"}"), Some(f64::from(refused)));
    let decided = fixture.metric("ratekeeper_request_duration_seconds_count{wire=\"http\"}");
    assert_eq!(decided, Some(f64::from(admitted)));
    // Another connection has its own share.
    assert_eq!(fixture.get("/v1/auth?cost=0", &[]).status, 200);
}

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// With 60 connections, h2's stream tables would fit into the bound even if every stream got an entry.
const ATTACKERS: usize = 200;
const STREAMS: u32 = 256;
