//! How a connection is closed on somebody who is still talking.
//!
//! A connection that is dropped with bytes unread is reset, and a reset overtakes the last answer: whoever sends too much
//! would find a broken pipe where it should be told that it is too much. So our end is closed first, and what still
//! comes is read and forgotten until the peer closes its own. That has a bound in time and in bytes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream whose shutdown hears its peer out.
#[derive(Debug)]
pub struct Parting<S> {
    stream: S,
    leaving: Option<Leaving>,
}

/// On the way out; this much more is borne.
#[derive(Debug)]
struct Leaving {
    /// Our end.
    is_closed: bool,
    time: Pin<Box<Sleep>>,
    bytes: usize,
}

impl<S> Parting<S> {
    /// Nobody has left yet.
    pub fn new(stream: S) -> Self {
        Self { stream, leaving: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Parting<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Parting<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, leaving } = self.get_mut();
        let begin = || Leaving { is_closed: false, time: Box::pin(sleep(LAST_WORDS)), bytes: LAST_BYTES };
        let leaving = leaving.get_or_insert_with(begin);
        if !leaving.is_closed {
            match Pin::new(&mut *stream).poll_shutdown(cx) {
                Poll::Ready(closed) => closed?,
                // TLS has a last word of its own, and a peer that takes none is not waited for.
                Poll::Pending => return leaving.time.as_mut().poll(cx).map(Ok),
            }
            leaving.is_closed = true;
        }
        let mut piece = [0; PIECE];
        while leaving.bytes > 0 && leaving.time.as_mut().poll(cx).is_pending() {
            let mut heard = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut heard)) {
                Ok(()) if !heard.filled().is_empty() => {
                    leaving.bytes = leaving.bytes.saturating_sub(heard.filled().len());
                }
                // The peer has closed its end, one way or another.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A client that is told to stop sending has heard it by then, unless it does not listen.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Enough for what is under way on a fast connection with a long way to go.
const LAST_BYTES: usize = 16 << 20;
/// What is read at once.
const PIECE: usize = 16 << 10;

#[cfg(test)]
#[path = "parting_tests.rs"]
mod tests;
