//! Memory after a peak: returned to the system.

use std::{fs, io::Write, net::TcpStream, time::Duration};

use ratekeeper_testkit::servers::wait_until;

use crate::{fixture::Fixture, server_process::ServerProcess};

/// Resident memory in bytes.
fn resident(server: &ServerProcess) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// An HTTP/2 connection with streams whose responses have no window.
fn connect(server: &str) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE = 0.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for stream in (1..2 * STREAMS).step_by(2) {
        // GET, http, a path that is not found, and the authority; END_STREAM and END_HEADERS.
        bytes.extend(frame(1, 5, stream, b"\x82\x86\x04\x04/nix\x01\x09localhost"));
    }
    let mut stream = TcpStream::connect(server).unwrap();
    let _ = stream.write_all(&bytes);
    stream
}

#[test]
fn memory_of_unread_responses_is_returned_to_the_system() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    assert_eq!(server.ask_admin("/healthz").status, 200);
    let idle = resident(&server);
    let mut peak = idle;
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            peak = peak.max(resident(&server));
            connect(server.http())
        })
        .collect();
    let name = "ratekeeper_closed_connections_total{wire=\"http\",reason=\"stalled\"} ";
    wait_until("stalled connections are closed", Duration::from_secs(60), || {
        peak = peak.max(resident(&server));
        let page = server.ask_admin("/metrics").body;
        page.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()).unwrap() >= CONNECTIONS as f64
    });
    drop(connections);
    let growth = peak - idle;
    assert!(growth > 4 << 20, "the responses hold memory: {growth} bytes");
    wait_until("half of the growth is returned", Duration::from_secs(60), || resident(&server) < idle + growth / 2);
}

const CONNECTIONS: usize = 200;
const STREAMS: u32 = 200;
