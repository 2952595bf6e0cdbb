//! Guarded stream: the last look at bytes before hyper and h2 have them, and the first at what they send.
//!
//! - HTTP/2 frames are counted ([`Frames`]); what is sent earns more of them.
//! - HTTP/1 heads are searched for bare line feeds ([`Lines`]).
//! - While the socket takes no more, nothing is read from it: a peer that does not read its answers cannot ask for more.
//! - A connection that is to be closed ends with GOAWAY if the peer speaks HTTP/2 and takes it, else with an error.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{account::Account, closures::Reason, frames::Frames, heads::Heads, lines::Lines};

/// A stream that is looked at.
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    stream: S,
    account: Account,
    heads: Heads,
    protocol: Protocol,
    /// Whether the socket takes no more.
    is_blocked: bool,
    /// Waits until it does.
    reader: Option<Waker>,
    /// What h2 is given instead of what the peer sends.
    goodbye: Option<io::Cursor<Vec<u8>>>,
}

#[derive(Debug)]
enum Protocol {
    /// So many bytes of HTTP/2's preface have come.
    Unknown(usize),
    Http1(Lines),
    Http2(Frames),
}

impl<S> Guarded<S> {
    /// Charged to this account; what is found in heads is noted with them.
    pub(crate) fn new(stream: S, account: Account, heads: Heads) -> Self {
        Self { stream, account, heads, protocol: Protocol::Unknown(0), is_blocked: false, reader: None, goodbye: None }
    }

    /// Looks at bytes that have come; how many of them may pass.
    fn look(&mut self, bytes: &[u8]) -> usize {
        let mut preface = 0;
        if let Protocol::Unknown(seen) = &mut self.protocol {
            let (before, expected) = PREFACE.split_at(*seen);
            preface = bytes.len().min(expected.len());
            if bytes[..preface] != expected[..preface] {
                let mut lines = Lines::new();
                lines.scan(before);
                preface = 0;
                self.protocol = Protocol::Http1(lines);
            } else {
                *seen += preface;
                if *seen == PREFACE.len() {
                    self.protocol = Protocol::Http2(Frames::new());
                }
            }
        }
        match &mut self.protocol {
            Protocol::Unknown(_) => {}
            Protocol::Http1(lines) => {
                if let Some(head) = lines.scan(bytes) {
                    self.heads.is_bare(head);
                }
            }
            Protocol::Http2(frames) => {
                if let Some(passed) = frames.scan(&bytes[preface..]) {
                    self.account.close(Reason::ControlFrames);
                    return preface + passed;
                }
            }
        }
        bytes.len()
    }

    /// The end of a connection that is to be closed, as far as it fits.
    fn end(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let Protocol::Http2(frames) = &self.protocol else { return Err(io::ErrorKind::ConnectionAborted.into()) };
        let goodbye = match &mut self.goodbye {
            Some(goodbye) => goodbye,
            None if frames.is_between_frames() => self.goodbye.insert(io::Cursor::new(frames.goodbye())),
            None => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        let count = io::Read::read(goodbye, buf.initialize_unfilled())?;
        buf.advance(count);
        if count == 0 { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn has_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_taking(written.is_ready());
        if let (Protocol::Http2(frames), Poll::Ready(Ok(count))) = (&mut self.protocol, &written) {
            frames.sent(*count);
        }
        written
    }

    fn is_taking(&mut self, is_taking: bool) {
        if self.is_blocked != is_taking {
            return;
        }
        self.is_blocked = !is_taking;
        self.account.is_blocked(!is_taking);
        if is_taking && let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.account.closing().is_some() {
            return Poll::Ready(this.end(buf));
        }
        if this.is_blocked {
            this.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let had = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() > had {
            let passed = this.look(&buf.filled()[had..]);
            buf.set_filled(had + passed);
            // Nothing at all would mean that the peer has closed its end.
            if passed == 0 {
                return Poll::Ready(this.end(buf));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.has_written(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // TLS takes more than the socket does, and waits for it here.
        self.is_taking(flushed.is_ready());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.has_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// How a client begins that speaks HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
