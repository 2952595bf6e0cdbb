//! Crowds at every port of a real process: its places and its memory have an end, and whoever is inside is served.

use std::{
    env,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use tollgate_server::{
    config::{Bounds, ServerConfig},
    run, shutdown,
};
use tollgate_testkit::servers::{Process, wait_until};

use crate::client::connect;

/// A server in a process of its own, so that its memory is nobody else's.
pub(crate) struct Crowded {
    pub(crate) process: Process,
    ports: [u16; 4],
}

pub(crate) const WIRES: [&str; 4] = ["http", "grpc", "resp", "admin"];

impl Crowded {
    pub(crate) fn start() -> Self {
        let ports = [(); 4].map(|()| Process::free_port());
        let told = ports.map(|port| port.to_string()).join(",");
        let process =
            Process::new(env::current_exe().unwrap(), ["--exact", SERVER, "--ignored", "--nocapture"]).env(PORTS, told);
        process.start();
        let crowded = Self { process, ports };
        wait_until("it listens", Duration::from_secs(60), || {
            assert!(crowded.process.is_running(), "it ended at once: {}", crowded.process.log());
            (0..4).all(|wire| TcpStream::connect(crowded.address(wire)).is_ok())
        });
        crowded
    }

    pub(crate) fn address(&self, wire: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[wire]).into()
    }

    /// What the metrics say, asked on a connection that is there already.
    pub(crate) fn metric(&self, inside: &mut TcpStream, name: &str, wire: usize) -> f64 {
        // This form says where it ends.
        let says = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\n\r\n";
        let page = exchange(inside, says, b"# EOF\n");
        let name = format!("{name}{{wire=\"{}\"}} ", WIRES[wire]);
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0.0)
    }
}

/// Half of something large, as each wire knows it.
fn half(wire: usize) -> Vec<u8> {
    let much = "x".repeat(50_000);
    match WIRES[wire] {
        "http" => format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n{much}").into_bytes(),
        "admin" => format!(
            "POST /api/switches HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{much}"
        )
        .into_bytes(),
        "resp" => format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{much}").into_bytes(),
        // The preface, settings, and a header block of 16 kB that is not finished.
        _ => [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\x40\0\x01\0\0\0\0\x01"[..], &[0x40; 10_000]].concat(),
    }
}

/// Somebody who behaves: what is sent, and what the answer has in it.
pub(crate) fn manners(wire: usize) -> (&'static [u8], &'static [u8]) {
    match WIRES[wire] {
        "http" => (b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\r\n\r\n"),
        "admin" => (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"alive\n"),
        "resp" => (b"PING\r\n", b"+PONG\r\n"),
        // A ping is answered with the same eight bytes.
        _ => (b"\0\0\x08\x06\0\0\0\0\0tollgate", b"tollgate"),
    }
}

pub(crate) fn exchange(stream: &mut TcpStream, says: &[u8], until: &[u8]) -> String {
    stream.write_all(says).unwrap();
    let mut heard = Vec::new();
    // HTTP/2 has more to say behind it.
    while !heard.windows(until.len()).any(|bytes| bytes == until) {
        let mut piece = [0; 16_384];
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "closed after {}", heard.escape_ascii());
        heard.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&heard).into_owned()
}

#[test]
fn a_flood_at_any_port_is_bounded_in_places_and_memory_and_those_inside_are_served() {
    let server = Crowded::start();
    let mut watcher = connect(server.address(3));
    for (wire, name) in WIRES.into_iter().enumerate() {
        wait_until("the last flood has gone", Duration::from_secs(20), || {
            server.metric(&mut watcher, "tollgate_connections", wire) <= if wire == 3 { 1.0 } else { 0.0 }
        });
        let mut inside = connect(server.address(wire));
        let (says, until) = manners(wire);
        if name == "grpc" {
            inside.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        }
        exchange(&mut inside, says, until);
        let before = server.process.resident_bytes();
        let half = half(wire);
        let mut flood = Vec::new();
        for _ in 0..FLOOD {
            let Ok(mut stream) = TcpStream::connect(server.address(wire)) else { continue };
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            // Those who are turned away cannot finish.
            let _ = stream.write_all(&half);
            flood.push(stream);
            if flood.len() % 100 == 0 {
                exchange(&mut inside, says, until);
            }
        }
        let (refused, open) = ("tollgate_refused_connections_total", "tollgate_connections");
        wait_until("the others are turned away", Duration::from_secs(20), || {
            server.metric(&mut watcher, refused, wire) >= (FLOOD - PLACES) as f64
        });
        assert!(server.metric(&mut watcher, open, wire) <= PLACES as f64, "{name}");
        let grown = server.process.resident_bytes().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes more after a flood at {name}");
        exchange(&mut inside, says, until);
        drop(flood);
        wait_until("there is room again", Duration::from_secs(20), || {
            server.metric(&mut watcher, open, wire) <= if wire == 3 { 2.0 } else { 1.0 }
        });
        exchange(&mut inside, says, until);
    }
}

/// Not a test, but the process that the other one floods.
#[test]
#[ignore = "the other test starts it as a process of its own"]
fn be_the_server() {
    let told = env::var(PORTS).expect("the other test starts this one");
    let at: Vec<SocketAddr> = told.split(',').map(|port| ([127, 0, 0, 1], port.parse().unwrap()).into()).collect();
    let config = ServerConfig {
        http: Some(at[0]),
        grpc: Some(at[1]),
        resp: Some(at[2]),
        admin: Some(at[3]),
        bounds: Bounds { connections: PLACES, ..Bounds::default() },
        ..ServerConfig::default()
    };
    let (_stopper, shutdown) = shutdown::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(config, shutdown)).unwrap();
}

const SERVER: &str = "flood::be_the_server";
const PORTS: &str = "TOLLGATE_TEST_PORTS";
/// Connections that each port has room for, and how many come.
const PLACES: usize = 100;
const FLOOD: usize = 500;
