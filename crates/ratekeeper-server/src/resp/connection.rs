//! One RESP connection: reads what has arrived, answers all of it, and sends the replies in one write.
//!
//! A client that pipelines gets its replies in order and in as few packets as it sent. Bounds: at most one frame is
//! read ahead, and replies are sent at 64 KiB. A client that does not read its replies is not read from.
//!
//! [`ConnectionIo`](crate::listen::ConnectionIo) bounds idle connections and those that do not read their replies. The
//! time limit of a command that has started is here.

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

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConnectionEnd {
    /// The client closed it, or sent `QUIT`.
    Closed,
    /// A protocol error.
    Malformed(Malformed),
    /// A command was not completed in time.
    TimedOut,
    /// The server is shutting down.
    Shutdown,
}

/// The input buffer. Bytes `start..end` have been received and not been parsed.
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut session: Session,
    mut pipeline: Pipeline,
    frame_timeout: Duration,
    latency: &Histogram,
    mut shutdown: Shutdown,
) -> io::Result<ConnectionEnd> {
    let mut input = Input::new();
    let (mut words, mut replies) = (Words::default(), Replies::default());
    let mut shutdown_begun = pin!(shutdown.begun());
    // Set while a command is incomplete.
    let mut frame_deadline: Option<Instant> = None;
    loop {
        let reading = async {
            match frame_deadline {
                None => Some(stream.read(input.free()).await),
                Some(deadline) => timeout_at(deadline, stream.read(input.free())).await.ok(),
            }
        };
        let read = tokio::select! {
            biased;
            read = reading => read,
            () = &mut shutdown_begun => return Ok(ConnectionEnd::Shutdown),
        };
        let Some(read) = read.transpose()? else { return Ok(ConnectionEnd::TimedOut) };
        if read == 0 {
            return Ok(ConnectionEnd::Closed);
        }
        let start = Instant::now();
        input.received(read);
        let malformed = loop {
            let frame = input.unparsed();
            match frame::read(frame, &mut words) {
                Ok(Some(length)) => {
                    if words.count() > 0 {
                        pipeline.answer(&mut session, Command::new(frame, &words), &mut replies).await;
                    }
                    input.parsed(length);
                    frame_deadline = None;
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
            latency.observe(start.elapsed().as_secs_f64());
        }
        if malformed.is_some() || session.is_over {
            let _ = stream.shutdown().await; // Lingers, so that the client receives the last reply.
            return Ok(malformed.map_or(ConnectionEnd::Closed, ConnectionEnd::Malformed));
        }
        if !input.is_empty() {
            frame_deadline.get_or_insert(start + frame_timeout);
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, replies: &mut Replies) -> io::Result<()> {
    stream.write_all(replies.bytes()).await?;
    stream.flush().await?; // TLS buffers writes.
    replies.clear();
    Ok(())
}

impl Input {
    fn new() -> Self {
        Self { buffer: vec![0; INITIAL_BYTES], start: 0, end: 0 }
    }

    /// Free space to read into. An incomplete frame moves to the front first; if it fills the buffer, the buffer grows,
    /// up to the length of the longest frame.
    fn free(&mut self) -> &mut [u8] {
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

    fn received(&mut self, count: usize) {
        self.end += count;
    }

    fn unparsed(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn parsed(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            // Grows for a client that fills the buffer in one read, and shrinks when reads are short again.
            if self.end == self.buffer.len() && self.end < MAX_FRAME_BYTES {
                self.buffer.resize(2 * self.end, 0);
            } else if self.buffer.len() > INITIAL_BYTES && self.end <= INITIAL_BYTES / 4 {
                self.buffer.truncate(INITIAL_BYTES);
                self.buffer.shrink_to_fit();
            }
            (self.start, self.end) = (0, 0);
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// About seventy throttle commands.
const INITIAL_BYTES: usize = 4 * 1024;
/// Replies are sent when they reach this size, even if more commands have arrived.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
