//! Timers and read limits over in-memory streams, on the paused clock.

use std::sync::Arc;

use hyper::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    config::Bounds,
    listen::{
        account::Charge,
        port_budget::PortBudget,
        stall_detector::{Registration, StallDetector},
    },
    telemetry::Wire,
};

const SECOND: Duration = Duration::from_secs(1);

/// A connection with two seconds for the first byte and ten without traffic, and the peer's end of it.
fn connection() -> (ConnectionIo, DuplexStream) {
    let (server, peer) = duplex(64 << 10);
    (ConnectionIo::new(Transport::Memory(server), 2 * SECOND, 10 * SECOND), peer)
}

/// The time until a read fails, and its error.
async fn read_fails(stream: &mut ConnectionIo) -> (Duration, ErrorKind) {
    let start = Instant::now();
    let error = stream.read(&mut [0; 100]).await.unwrap_err();
    (start.elapsed(), error.kind())
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_and_later_ones_have_different_timeouts() {
    let (mut stream, _peer) = connection();
    assert_eq!(read_fails(&mut stream).await, (2 * SECOND, ErrorKind::TimedOut));
    let (mut stream, mut peer) = connection();
    peer.write_all(b"x").await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 1);
    assert_eq!(read_fails(&mut stream).await, (10 * SECOND, ErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_may_be_shorter_than_that_of_the_first_byte() {
    let (server, mut peer) = duplex(100);
    let mut stream = ConnectionIo::new(Transport::Memory(server), 100 * SECOND, SECOND);
    peer.write_all(b"x").await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 1);
    assert_eq!(read_fails(&mut stream).await, (SECOND, ErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn every_read_restarts_the_idle_timeout_and_writes_do_after_the_first_byte() {
    let (mut stream, mut peer) = connection();
    for _ in 0..20 {
        peer.write_all(b"x").await.unwrap();
        assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 1);
        sleep(9 * SECOND).await;
    }
    stream.write_all(b"y").await.unwrap();
    assert_eq!(read_fails(&mut stream).await, (10 * SECOND, ErrorKind::TimedOut));
    let (mut stream, _peer) = connection();
    sleep(SECOND).await;
    stream.write_all(b"y").await.unwrap();
    assert_eq!(read_fails(&mut stream).await, (SECOND, ErrorKind::TimedOut), "the peer may not be there");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_times_out_a_write() {
    let (mut stream, mut peer) = connection();
    peer.write_all(b"x").await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 1);
    let start = Instant::now();
    let error = stream.write_all(&[0; 128 << 10]).await.unwrap_err();
    assert_eq!((start.elapsed(), error.kind()), (10 * SECOND, ErrorKind::TimedOut));
}

/// A port with a budget of 1 MiB.
struct Port(Arc<StallDetector>);

impl Port {
    fn new() -> Self {
        let bounds = Bounds { pending_bytes: 1 << 20, ..Bounds::default() };
        Self(StallDetector::new(PortBudget::new(Wire::Http, &bounds, &Arc::default()), bounds.stall))
    }

    /// An inspected connection with three seconds for a header block.
    fn inspected(&self) -> (ConnectionIo, DuplexStream, RequestCounts, Account, Registration) {
        let ((stream, peer), (account, registration)) = (connection(), self.0.register());
        let requests = RequestCounts::default();
        let stream = stream.inspect_http(account.clone(), requests.clone(), Some(3 * SECOND));
        (stream, peer, requests, account, registration)
    }

    /// Enough to have HTTP/2 read in small pieces.
    fn press(&self) -> (Charge, Registration) {
        let (account, registration) = self.0.register();
        (account.charge(1 << 18).unwrap(), registration)
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_block_has_one_deadline_however_slowly_it_arrives() {
    let port = Port::new();
    let (mut stream, mut peer, ..) = port.inspected();
    let start = Instant::now();
    let dripping = tokio::spawn(async move {
        while peer.write_all(b"x").await.is_ok() {
            sleep(SECOND / 2).await;
        }
    });
    let error = loop {
        match stream.read(&mut [0; 100]).await {
            Ok(count) => assert_eq!(count, 1),
            Err(error) => break error,
        }
    };
    assert_eq!((start.elapsed(), error.kind()), (3 * SECOND, ErrorKind::TimedOut));
    drop(stream);
    dripping.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_header_timeout_does_not_run_between_requests_and_restarts_with_the_next() {
    let port = Port::new();
    let (mut stream, mut peer, requests, ..) = port.inspected();
    for _ in 0..3 {
        peer.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 18);
        requests.count_received(Version::HTTP_11);
        requests.count_answered();
        assert!(timeout(9 * SECOND, stream.read(&mut [0; 100])).await.is_err(), "kept while idle");
    }
    peer.write_all(b"GET").await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 3);
    assert_eq!(read_fails(&mut stream).await, (3 * SECOND, ErrorKind::TimedOut));
}

/// Control frames arrive between requests.
#[tokio::test(start_paused = true)]
async fn on_http_2_only_the_first_header_block_has_the_timeout() {
    let port = Port::new();
    let (mut stream, mut peer, requests, ..) = port.inspected();
    peer.write_all(PREFACE).await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), PREFACE.len());
    requests.count_received(Version::HTTP_2);
    requests.count_answered();
    peer.write_all(PING).await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), PING.len());
    assert_eq!(read_fails(&mut stream).await, (10 * SECOND, ErrorKind::TimedOut), "the idle timeout");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_a_write_is_blocked() {
    let port = Port::new();
    let (mut stream, mut peer, ..) = port.inspected();
    peer.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert!(timeout(SECOND, stream.write_all(&[0; 128 << 10])).await.is_err(), "blocked");
    assert!(timeout(SECOND, stream.read(&mut [0; 100])).await.is_err(), "not read");
    peer.read_exact(&mut vec![0; 64 << 10]).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 16);
}

/// h2 must not see many new streams at once while most of them will be refused.
#[tokio::test(start_paused = true)]
async fn http_2_is_read_in_small_pieces_under_memory_pressure() {
    let port = Port::new();
    let (mut stream, mut peer, ..) = port.inspected();
    let mut buffer = vec![0; 16 << 10];
    peer.write_all(PREFACE).await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), PREFACE.len());
    let frames = PING.repeat(100);
    peer.write_all(&frames).await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), frames.len(), "without pressure");
    let pressure = port.press();
    peer.write_all(&frames).await.unwrap();
    for left in (0..frames.len()).rev().step_by(256) {
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 256.min(left + 1));
    }
    drop(pressure);
    peer.write_all(&frames).await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), frames.len(), "after it");
}

#[tokio::test(start_paused = true)]
async fn under_memory_pressure_the_next_piece_waits_for_refusals() {
    let port = Port::new();
    let (mut stream, mut peer, _, account, _registration) = port.inspected();
    let mut buffer = vec![0; 16 << 10];
    peer.write_all(PREFACE).await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), PREFACE.len());
    let _pressure = port.press();
    peer.write_all(PING).await.unwrap();
    let refusal = account.refusal();
    assert!(timeout(SECOND, stream.read(&mut buffer)).await.is_err(), "a refusal is pending");
    drop(refusal);
    assert_eq!(stream.read(&mut buffer).await.unwrap(), PING.len());
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\08 octets";
