use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::Instant,
};

use super::*;

/// A stream that has given its answer and leaves, and the peer's end of it.
fn leaving() -> (DuplexStream, tokio::task::JoinHandle<Duration>) {
    let (ours, theirs) = duplex(100);
    let parting = tokio::spawn(async move {
        let (mut stream, began) = (Parting::new(ours), Instant::now());
        stream.write_all(b"too much").await.unwrap();
        stream.shutdown().await.unwrap();
        began.elapsed()
    });
    (theirs, parting)
}

#[tokio::test(start_paused = true)]
async fn whoever_is_still_talking_can_finish_and_then_hears_the_answer() {
    let (mut peer, parting) = leaving();
    peer.write_all(&[0; 100_000]).await.unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "too much");
    drop(peer);
    assert_eq!(parting.await.unwrap(), Duration::ZERO, "nothing is waited for once the peer has gone");
}

#[tokio::test(start_paused = true)]
async fn whoever_stays_without_a_word_is_left_after_a_moment() {
    let (_peer, parting) = leaving();
    assert_eq!(parting.await.unwrap(), LAST_WORDS);
}

#[tokio::test(start_paused = true)]
async fn whoever_never_ends_is_left_after_so_many_bytes() {
    let (mut peer, parting) = leaving();
    let mut sent = 0;
    while peer.write_all(&[0; PIECE]).await.is_ok() {
        sent += PIECE;
    }
    assert!((LAST_BYTES..=LAST_BYTES + 2 * PIECE).contains(&sent), "{sent}");
    parting.await.unwrap();
}
