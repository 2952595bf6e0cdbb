//! Answers that are not read: what they hold has a bound, and their connections an end.

use std::{thread, time::Duration};

use tollgate_server::config::Bounds;
use tollgate_testkit::servers::wait_until;

use crate::{
    client::connect,
    desk::Desk,
    flood::{Crowded, WIRES, exchange, manners},
    frames::{DATA, END_STREAM, ENHANCE_YOUR_CALM, Frame, Frames, HEADERS, WINDOW_UPDATE, frame, request},
};

/// Something with an answer that anybody may ask for.
fn question(wire: usize, stream: u32) -> Vec<u8> {
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

/// The attack of which a server must not die: streams without a window, on many connections, which answer pings.
#[test]
fn answers_without_a_window_are_bounded_in_memory_and_those_who_read_are_served() {
    for wire in [0, 1, 3] {
        let server = Crowded::start();
        let mut watcher = connect(server.address(3));
        // A client that reads, on a connection which it keeps.
        let mut inside = (WIRES[wire] != "grpc").then(|| connect(server.address(wire)));
        let before = server.process.resident_bytes();
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            let mut one = Frames::connect(server.address(wire), 0).unwrap();
            let asked: Vec<u8> = (0..STREAMS).flat_map(|stream| question(wire, 2 * stream + 1)).collect();
            let _ = one.send(&asked);
            // A client that answers pings and reads its frames, though it grants no window.
            crowd.push(thread::spawn(move || while one.next().is_ok() {}));
            if let Some(inside) = &mut inside {
                let (says, until) = manners(wire);
                exchange(inside, says, until);
            }
        }
        drop(inside);
        let mut most = 0;
        wait_until("stalled connections are closed", Duration::from_secs(60), || {
            most = most.max(server.process.resident_bytes());
            server.metric(&mut watcher, "tollgate_connections", wire) <= if wire == 3 { 1.0 } else { 0.0 }
        });
        let grown = most.saturating_sub(before) >> 20;
        assert!(grown < 64, "{grown} MiB more for unread answers at {}", WIRES[wire]);
        wait_until("what they held is given back", Duration::from_secs(20), || {
            server.metric(&mut watcher, "tollgate_pending_bytes", wire) < 100_000.0
        });
        crowd.into_iter().for_each(|one| one.join().unwrap());
    }
}

fn impatient() -> Desk {
    Desk::with(|config| config.bounds = Bounds { stall: Duration::from_millis(500), ..config.bounds })
}

#[test]
fn a_connection_that_takes_no_answer_is_closed_with_goaway() {
    let desk = impatient();
    for address in [desk.http, desk.admin] {
        let mut client = Frames::connect(address, 0).unwrap();
        client.send(&request(1, "GET", "/nix", &[], None)).unwrap();
        assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM));
    }
    for wire in ["http", "admin"] {
        let closed = format!("tollgate_closed_connections_total{{wire=\"{wire}\",reason=\"stalled\"}}");
        assert_eq!(desk.metric(&closed), Some(1.0));
    }
}

/// One byte now and then is no progress.
#[test]
fn a_window_of_one_byte_at_a_time_is_no_way_to_stay() {
    let desk = impatient();
    let mut client = Frames::connect(desk.http, 0).unwrap();
    client.send(&request(1, "GET", "/v1/openapi.json", &[], None)).unwrap();
    let mut writer = client.stream.try_clone().unwrap();
    let drip = thread::spawn(move || {
        while std::io::Write::write_all(&mut writer, &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM));
    drop(client);
    drip.join().unwrap();
}

/// A long answer over a narrow window arrives, though it takes many times the stall time.
#[test]
fn a_slow_reader_that_reads_gets_its_answer() {
    let desk = impatient();
    let mut client = Frames::connect(desk.http, 8_192).unwrap();
    client.send(&request(1, "GET", "/v1/openapi.json", &[], None)).unwrap();
    let mut length = 0;
    loop {
        let Frame { kind, flags, payload, .. } = client.next().unwrap();
        if kind == DATA {
            length += payload.len();
            if flags & END_STREAM != 0 {
                break;
            }
            thread::sleep(Duration::from_millis(200));
            client.send(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0x20, 0])).unwrap();
            client.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0x20, 0])).unwrap();
        }
    }
    assert_eq!(length, desk.get("/v1/openapi.json", &[]).body.len());
}

/// Beyond its share a connection is refused with headers alone, which need no window, and nothing is decided for it.
#[test]
fn what_a_connection_has_no_room_for_is_refused_before_it_is_decided() {
    let desk = Desk::with(|config| config.bounds = Bounds { pending_bytes: 64 << 10, ..config.bounds });
    let mut client = Frames::connect(desk.http, 0).unwrap();
    let body = br#"{"domain":"api","descriptor":{"user":"u"},"cost":1}"#;
    let asked: Vec<u8> = (0..200).flat_map(|n| request(2 * n + 1, "POST", "/v1/check", &[], Some(body))).collect();
    client.send(&asked).unwrap();
    let (mut admitted, mut refused) = (0, 0);
    while admitted + refused < 200 {
        let Frame { kind, flags, .. } = client.next().unwrap();
        if kind == HEADERS && flags & END_STREAM != 0 {
            refused += 1;
        } else if kind == HEADERS {
            admitted += 1;
        }
    }
    assert!((4..=16).contains(&admitted), "{admitted} have room");
    assert_eq!(desk.metric("tollgate_refused_requests_total{wire=\"http\"}"), Some(f64::from(refused)));
    let decided = desk.metric("tollgate_request_duration_seconds_count{wire=\"http\"}");
    assert_eq!(decided, Some(f64::from(admitted)));
    // Another connection has room.
    assert_eq!(desk.get("/v1/auth?cost=0", &[]).status, 200);
}

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Connections of the crowd, and streams on each.
const CROWD: usize = 60;
const STREAMS: u32 = 256;
