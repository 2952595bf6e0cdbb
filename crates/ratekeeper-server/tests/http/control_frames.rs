//! Floods of control frames: closed with GOAWAY and counted.

use std::net::SocketAddr;

use crate::{
    fixture::Fixture,
    frames::{END_HEADERS, ENHANCE_YOUR_CALM, Frames, HEADERS, PING, SETTINGS, WINDOW_UPDATE, frame, request},
    http2::Http2Client,
};

const PRIORITY: u8 = 2;

fn all_ports() -> (Fixture, [(&'static str, SocketAddr); 3]) {
    let fixture = Fixture::with(|config| config.grpc = config.http);
    let grpc = fixture.server.as_ref().unwrap().addresses.grpc.unwrap();
    let ports = [("http", fixture.http), ("admin", fixture.admin), ("grpc", grpc)];
    (fixture, ports)
}

#[test]
fn a_flood_of_control_frames_ends_with_goaway_and_is_counted() {
    let (fixture, ports) = all_ports();
    let floods: [(u8, u32, &[u8]); 4] = [
        (WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        (PRIORITY, 3, &[0, 0, 0, 0, 7]),
        (SETTINGS, 0, &[0, 4, 0, 1, 0, 0]),
        (PING, 0, b"8 octets"),
    ];
    for (wire, address) in ports {
        for (kind, stream, payload) in floods {
            let mut client = Frames::connect(address, 65_535).unwrap();
            client.send(&request(1, "GET", "/nix", &[], None)).unwrap();
            let mut writer = client.stream.try_clone().unwrap();
            let flood = frame(kind, 0, stream, payload).repeat(20_000);
            let flooding = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &flood));
            assert_eq!(client.goaway_code(), Some(ENHANCE_YOUR_CALM), "kind {kind} on {wire}");
            drop(client);
            let _ = flooding.join().unwrap();
        }
        let closed = format!("ratekeeper_closed_connections_total{{wire=\"{wire}\",reason=\"control_frames\"}}");
        ratekeeper_testkit::servers::wait_until("all are counted", std::time::Duration::from_secs(20), || {
            fixture.metric(&closed) == Some(4.0)
        });
    }
}

/// h2 closes connections with too many malformed streams; they are counted too.
#[test]
fn a_flood_of_resets_is_counted() {
    let (fixture, ports) = all_ports();
    for (wire, address) in ports {
        let mut client = Frames::connect(address, 65_535).unwrap();
        // A pseudo-header field after a regular one is malformed, and h2 resets the stream.
        let malformed = |stream| frame(HEADERS, END_HEADERS, stream, b"\x82\x86\x00\x01a\x01b\x84");
        let flood: Vec<u8> = (1..3_000).step_by(2).flat_map(malformed).collect();
        let _ = client.send(&flood);
        assert_eq!(client.goaway_code(), Some(ENHANCE_YOUR_CALM), "{wire}");
        let closed = format!("ratekeeper_closed_connections_total{{wire=\"{wire}\",reason=\"flood\"}}");
        ratekeeper_testkit::servers::wait_until("it is counted", std::time::Duration::from_secs(20), || {
            fixture.metric(&closed) == Some(1.0)
        });
    }
}

/// One PING per request never exhausts the budget.
#[test]
fn a_client_that_sends_requests_may_send_control_frames_too() {
    let fixture = Fixture::new();
    fixture.runtime.block_on(async {
        let mut client = Http2Client::connect(fixture.http).await;
        for _ in 0..3_000 {
            let response = client.ask("GET", "http://localhost/v1/auth?cost=0", b"").await.unwrap();
            assert_eq!(response.status, 200);
            client.ping().await;
        }
    });
}
