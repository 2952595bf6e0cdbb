//! Floods of connections on every port of a real process: connections and memory are bounded, good clients are served.

use std::{
    env,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use ratekeeper_server::{
    config::{Bounds, ServerConfig},
    run, shutdown,
};
use ratekeeper_testkit::servers::{Process, wait_until};

use crate::client::connect;

/// A server in a separate process, so that its memory can be measured.
pub(crate) struct FloodedServer {
    pub(crate) process: Process,
    ports: [u16; 4],
}

pub(crate) const WIRES: [&str; 4] = ["http", "grpc", "resp", "admin"];

impl FloodedServer {
    pub(crate) fn start() -> Self {
        Self::with_max_connections(MAX_CONNECTIONS)
    }

    /// With a bound on the connections of a port.
    pub(crate) fn with_max_connections(max_connections: usize) -> Self {
        let ports = [(); 4].map(|()| Process::free_port());
        let list = ports.map(|port| port.to_string()).join(",");
        let process = Process::new(env::current_exe().unwrap(), ["--exact", SERVER, "--ignored", "--nocapture"])
            .env(PORTS_VARIABLE, list)
            .env(MAX_CONNECTIONS_VARIABLE, max_connections.to_string());
        process.start();
        let server = Self { process, ports };
        wait_until("it listens", Duration::from_secs(60), || {
            assert!(server.process.is_running(), "it ended at once: {}", server.process.log());
            (0..4).all(|wire| TcpStream::connect(server.address(wire)).is_ok())
        });
        server
    }

    pub(crate) fn address(&self, wire: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[wire]).into()
    }

    /// A metric, requested on a connection that is open already.
    pub(crate) fn metric(&self, stream: &mut TcpStream, name: &str, wire: usize) -> f64 {
        // OpenMetrics has an end marker.
        let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\n\r\n";
        let page = exchange(stream, request, b"# EOF\n");
        let name = format!("{name}{{wire=\"{}\"}} ", WIRES[wire]);
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0.0)
    }
}

/// The first part of a large request, for each wire.
fn incomplete_request(wire: usize) -> Vec<u8> {
    let filler = "x".repeat(50_000);
    match WIRES[wire] {
        "http" => format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n{filler}").into_bytes(),
        "admin" => format!(
            "POST /api/switches HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{filler}"
        )
        .into_bytes(),
        "resp" => format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{filler}").into_bytes(),
        // The preface, SETTINGS, and an incomplete header block of 16 kB.
        _ => [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\x40\0\x01\0\0\0\0\x01"[..], &[0x40; 10_000]].concat(),
    }
}

/// The request of a good client, and what its response contains.
pub(crate) fn good_request(wire: usize) -> (&'static [u8], &'static [u8]) {
    match WIRES[wire] {
        "http" => (b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\r\n\r\n"),
        "admin" => (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"alive\n"),
        "resp" => (b"PING\r\n", b"+PONG\r\n"),
        // A PING is acknowledged with the same eight bytes.
        _ => (b"\0\0\x08\x06\0\0\0\0\08 octets", b"8 octets"),
    }
}

pub(crate) fn exchange(stream: &mut TcpStream, request: &[u8], until: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut received = Vec::new();
    // On HTTP/2 more frames may follow.
    while !received.windows(until.len()).any(|bytes| bytes == until) {
        let mut piece = [0; 16_384];
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "closed after {}", received.escape_ascii());
        received.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&received).into_owned()
}

#[test]
fn a_flood_of_connections_is_bounded_in_number_and_memory_and_good_clients_are_served() {
    let server = FloodedServer::start();
    let mut watcher = connect(server.address(3));
    for (wire, name) in WIRES.into_iter().enumerate() {
        wait_until("the connections of the last flood are closed", Duration::from_secs(20), || {
            server.metric(&mut watcher, "ratekeeper_connections", wire) <= if wire == 3 { 1.0 } else { 0.0 }
        });
        let mut good = connect(server.address(wire));
        let (request, until) = good_request(wire);
        if name == "grpc" {
            good.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        }
        exchange(&mut good, request, until);
        let before = server.process.resident_bytes();
        let incomplete = incomplete_request(wire);
        let mut flood = Vec::new();
        for _ in 0..FLOOD {
            let Ok(mut stream) = TcpStream::connect(server.address(wire)) else { continue };
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            // Refused connections fail here.
            let _ = stream.write_all(&incomplete);
            flood.push(stream);
            if flood.len() % 100 == 0 {
                exchange(&mut good, request, until);
            }
        }
        let (refused, open) = ("ratekeeper_refused_connections_total", "ratekeeper_connections");
        wait_until("the others are refused", Duration::from_secs(20), || {
            server.metric(&mut watcher, refused, wire) >= (FLOOD - MAX_CONNECTIONS) as f64
        });
        assert!(server.metric(&mut watcher, open, wire) <= MAX_CONNECTIONS as f64, "{name}");
        let grown = server.process.resident_bytes().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes more after a flood at {name}");
        exchange(&mut good, request, until);
        drop(flood);
        wait_until("their connections are closed", Duration::from_secs(20), || {
            server.metric(&mut watcher, open, wire) <= if wire == 3 { 2.0 } else { 1.0 }
        });
        exchange(&mut good, request, until);
    }
}

/// Not a test: the server process that the other tests flood.
#[test]
#[ignore = "started by the other tests as a process"]
fn run_server() {
    let list = env::var(PORTS_VARIABLE).expect("started by another test");
    let at: Vec<SocketAddr> = list.split(',').map(|port| ([127, 0, 0, 1], port.parse().unwrap()).into()).collect();
    let connections = env::var(MAX_CONNECTIONS_VARIABLE).expect("started by another test").parse().unwrap();
    let config = ServerConfig {
        http: Some(at[0]),
        grpc: Some(at[1]),
        resp: Some(at[2]),
        admin: Some(at[3]),
        bounds: Bounds { connections, ..Bounds::default() },
        ..ServerConfig::default()
    };
    let (_stopper, shutdown) = shutdown::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(config, shutdown)).unwrap();
}

const SERVER: &str = "flood::run_server";
const PORTS_VARIABLE: &str = "RATEKEEPER_TEST_PORTS";
const MAX_CONNECTIONS_VARIABLE: &str = "RATEKEEPER_TEST_MAX_CONNECTIONS";
/// Connections that a port accepts at once.
const MAX_CONNECTIONS: usize = 100;
/// Connections that are opened.
const FLOOD: usize = 500;
