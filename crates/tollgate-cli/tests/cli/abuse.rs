//! What clients that misbehave can do to the log.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::{desk::Desk, running::Running};

/// A connection that h2 closes: header blocks that are malformed, each of which it resets, until it has had enough.
fn is_closed_for_resets(server: &str) -> bool {
    let mut stream = TcpStream::connect(server).unwrap();
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..1_001_u32).step_by(2) {
        // The path behind another field.
        let block = b"\x82\x86\x00\x01a\x01b\x84";
        flood.extend_from_slice(&[0, 0, 8, 1, 5]);
        flood.extend_from_slice(&stream.to_be_bytes());
        flood.extend_from_slice(block);
    }
    let _ = stream.write_all(&flood);
    stream.read_to_end(&mut Vec::new()).is_ok()
}

#[test]
fn connections_closed_for_abuse_are_one_line_a_minute_however_many_there_are() {
    let desk = Desk::new();
    let server = Running::start(&desk, &[]);
    for _ in 0..100 {
        is_closed_for_resets(server.http());
    }
    let counted = || {
        let page = server.ask_admin("/metrics").body;
        let name = "tollgate_closed_connections_total{wire=\"http\",reason=\"flood\"} ";
        page.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()).unwrap()
    };
    tollgate_testkit::servers::wait_until("all are counted", crate::running::PATIENCE, || counted() == 100.0);
    let log = server.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.len() <= 3 && log.contains("connections were closed"), "{log}");
}
