//! In-memory RESP client, for tests and fuzzing of the whole path from bytes to bytes without a network.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Resp,
    connection::{self, ConnectionEnd},
    session::Session,
};
use crate::{shutdown, telemetry::Wire};

/// A client with a fixed input that ends with EOF.
struct ScriptedClient<'a> {
    input: &'a [u8],
    /// Maximum number of bytes per read.
    max_read: usize,
    output: Vec<u8>,
}

impl Resp {
    /// Returns the replies to these bytes, delivered in reads of at most `max_read` bytes followed by EOF, and whether
    /// the connection ended without an error.
    pub async fn converse(&self, input: &[u8], max_read: usize) -> (Vec<u8>, bool) {
        let mut client = ScriptedClient { input, max_read: max_read.max(1), output: Vec::new() };
        let session = Session::new(self.engine.clone(), self.access.clone(), 1);
        let latency = self.engine.telemetry().latency(Wire::Resp);
        let (_stopper, shutdown) = shutdown::channel();
        let end = connection::serve(&mut client, session, self.pipeline(), FRAME_TIMEOUT, &latency, shutdown).await;
        (client.output, matches!(end, Ok(ConnectionEnd::Closed)))
    }
}

impl AsyncRead for ScriptedClient<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = self.max_read.min(self.input.len()).min(buf.remaining());
        let (now, later) = self.input.split_at(count);
        buf.put_slice(now);
        self.input = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedClient<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Frame timeout; the client never pauses, so it does not expire.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
