//! A conversation without a network: what a client sends in, what it is answered out. For tests and fuzzing, which want
//! the whole path from bytes to bytes a million times over.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Resp,
    connection::{self, End},
    session::Session,
};
use crate::{shutdown, telemetry::Wire};

/// A client that has said all it will say.
struct Script<'a> {
    says: &'a [u8],
    /// The most bytes that arrive at once.
    at_once: usize,
    hears: Vec<u8>,
}

impl Resp {
    /// What a client is answered that sends these bytes, so many at once, and leaves; and whether it was let finish.
    pub async fn converse(&self, says: &[u8], at_once: usize) -> (Vec<u8>, bool) {
        let mut script = Script { says, at_once: at_once.max(1), hears: Vec::new() };
        let session = Session::new(self.engine.clone(), self.access.clone(), 1);
        let latency = self.engine.telemetry().latency(Wire::Resp);
        let (_stopper, word) = shutdown::channel();
        let end = connection::serve(&mut script, session, self.pipeline(), PATIENCE, &latency, word).await;
        (script.hears, matches!(end, Ok(End::Left)))
    }
}

impl AsyncRead for Script<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = self.at_once.min(self.says.len()).min(buf.remaining());
        let (now, later) = self.says.split_at(count);
        buf.put_slice(now);
        self.says = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.hears.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A script never pauses.
const PATIENCE: Duration = Duration::from_secs(10);
