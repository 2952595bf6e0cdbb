//! Bound on log lines caused by abusive clients.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::{fixture::Fixture, server_process::ServerProcess};

/// Sends malformed header blocks until h2 closes the connection because of its resets.
fn is_closed_for_resets(server: &str) -> bool {
    let mut stream = TcpStream::connect(server).unwrap();
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..1_001_u32).step_by(2) {
        // A pseudo-header after a regular field.
        let block = b"\x82\x86\x00\x01a\x01b\x84";
        flood.extend_from_slice(&[0, 0, 8, 1, 5]);
        flood.extend_from_slice(&stream.to_be_bytes());
        flood.extend_from_slice(block);
    }
    let _ = stream.write_all(&flood);
    stream.read_to_end(&mut Vec::new()).is_ok()
}

#[test]
fn connections_closed_for_abuse_log_one_line_a_minute() {
    let fixture = Fixture::new();
    let server = ServerProcess::start(&fixture, &[]);
    for _ in 0..100 {
        is_closed_for_resets(server.http());
    }
    let counted = || {
        let page = server.ask_admin("/metrics").body;
        let name = "ratekeeper_closed_connections_total{wire=\"http\",reason=\"flood\"} ";
        page.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()).unwrap()
    };
    ratekeeper_testkit::servers::wait_until("all are counted", crate::server_process::TIMEOUT, || counted() == 100.0);
    let log = server.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.len() <= 3 && log.contains("connections were closed"), "{log}");
}
