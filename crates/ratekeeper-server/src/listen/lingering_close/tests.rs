use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::Instant,
};

use super::*;
use crate::listen::{connection_io::ConnectionIo, transport::Transport};

/// A connection that sends a response and closes, in how much time; and the peer's end of it.
fn closing() -> (DuplexStream, JoinHandle<Duration>) {
    let (server, peer) = duplex(100);
    let closing = tokio::spawn(async move {
        let hour = Duration::from_secs(3_600);
        let (mut stream, start) = (ConnectionIo::new(Transport::Memory(server), hour, hour), Instant::now());
        stream.write_all(b"too long").await.unwrap();
        stream.shutdown().await.unwrap();
        start.elapsed()
    });
    (peer, closing)
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_still_sending_receives_the_response() {
    let (mut peer, closing) = closing();
    peer.write_all(&[0; 100_000]).await.unwrap();
    let mut response = String::new();
    peer.read_to_string(&mut response).await.unwrap();
    assert_eq!(response, "too long");
    drop(peer);
    assert_eq!(closing.await.unwrap(), Duration::ZERO, "EOF ends it at once");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stays_open_is_waited_for_one_second() {
    let (_peer, closing) = closing();
    assert_eq!(closing.await.unwrap(), MAX_TIME);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_stops_sending_is_cut_off_after_16_mib() {
    let (mut peer, closing) = closing();
    let mut sent = 0;
    while peer.write_all(&[0; PIECE_BYTES]).await.is_ok() {
        sent += PIECE_BYTES;
    }
    assert!((MAX_BYTES..=MAX_BYTES + 2 * PIECE_BYTES).contains(&sent), "{sent}");
    closing.await.unwrap();
}
