//! One connection: read what is there, answer all of it, send it in one go.
//!
//! A client that pipelines gets its answers in order and in as few packets as it sent. The buffers grow with what is
//! sent and have an end: no more than one frame's worth is read ahead, and answers are sent before more than that has
//! piled up. A client that does not read its answers is not read from.
//!
//! Silence has bounds too. The listener's stream ends a connection that rests for too long or does not take its answers;
//! here is the bound on a command that was begun and does not end.

use std::{io, pin::pin, time::Duration};

use prometheus_client::metrics::histogram::Histogram;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout_at},
};

use super::{
    frame::{self, Command, MAX_FRAME_BYTES, Malformed, Words},
    pipeline::Pipeline,
    reply::Replies,
    session::Session,
};
use crate::shutdown::Shutdown;

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The client left, or said `QUIT`.
    Left,
    /// It broke the protocol.
    Malformed(Malformed),
    /// It was silent for too long.
    Silent,
    /// The server is going down.
    Shutdown,
}

/// Bytes on their way in.
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// Serves a client to its end.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut session: Session,
    mut pipeline: Pipeline,
    frame_timeout: Duration,
    latency: &Histogram,
    mut shutdown: Shutdown,
) -> io::Result<End> {
    let mut incoming = Incoming::new();
    let (mut words, mut replies) = (Words::default(), Replies::default());
    let mut ending = pin!(shutdown.begun());
    // When a command that was begun must have ended.
    let mut end_by: Option<Instant> = None;
    loop {
        let heard = async {
            match end_by {
                None => Some(stream.read(incoming.room()).await),
                Some(by) => timeout_at(by, stream.read(incoming.room())).await.ok(),
            }
        };
        let read = tokio::select! {
            biased;
            read = heard => read,
            () = &mut ending => return Ok(End::Shutdown),
        };
        let Some(read) = read.transpose()? else { return Ok(End::Silent) };
        if read == 0 {
            return Ok(End::Left);
        }
        let began = Instant::now();
        incoming.arrived(read);
        let broken = loop {
            let frame = incoming.unread();
            match frame::read(frame, &mut words) {
                Ok(Some(taken)) => {
                    if words.count() > 0 {
                        pipeline.answer(&mut session, Command::new(frame, &words), &mut replies).await;
                    }
                    incoming.take(taken);
                    end_by = None;
                    if session.is_over {
                        break None;
                    }
                    if replies.bytes().len() >= MAX_OUTPUT_BYTES {
                        send(&mut stream, &mut replies).await?;
                    }
                }
                Ok(None) => break None,
                Err(malformed) => {
                    pipeline.finish(&session, &mut replies).await;
                    replies.error(&format!("ERR Protocol error: {malformed}"));
                    break Some(malformed);
                }
            }
        };
        pipeline.finish(&session, &mut replies).await;
        if !replies.bytes().is_empty() {
            send(&mut stream, &mut replies).await?;
            latency.observe(began.elapsed().as_secs_f64());
        }
        if broken.is_some() || session.is_over {
            let _ = stream.shutdown().await; // Hears the client out, so that the last answer reaches it.
            return Ok(broken.map_or(End::Left, End::Malformed));
        }
        if !incoming.is_empty() {
            end_by.get_or_insert(began + frame_timeout);
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, replies: &mut Replies) -> io::Result<()> {
    stream.write_all(replies.bytes()).await?;
    stream.flush().await?; // TLS may hold some of it back
    replies.clear();
    Ok(())
}

impl Incoming {
    fn new() -> Self {
        Self { buffer: vec![0; FIRST_BYTES], start: 0, end: 0 }
    }

    /// Where the next bytes go. What is left of an unfinished frame moves to the front first; if it fills the buffer,
    /// the buffer grows. A frame has an end, and so has this.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() && self.end < MAX_FRAME_BYTES {
            self.buffer.resize((2 * self.end).min(MAX_FRAME_BYTES), 0);
        }
        &mut self.buffer[self.end..]
    }

    fn arrived(&mut self, count: usize) {
        self.end += count;
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            // A client that sends more at once than fits gets more room; one that has stopped doing so gives it back.
            if self.end == self.buffer.len() && self.end < MAX_FRAME_BYTES {
                self.buffer.resize(2 * self.end, 0);
            } else if self.buffer.len() > FIRST_BYTES && self.end <= FIRST_BYTES / 4 {
                self.buffer.truncate(FIRST_BYTES);
                self.buffer.shrink_to_fit();
            }
            (self.start, self.end) = (0, 0);
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// What a connection starts with: some seventy throttle commands fit.
const FIRST_BYTES: usize = 4 * 1024;
/// Answers are sent when they come to this much, whatever else has been asked.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
