//! Byte stream of one connection: TCP or TLS with timeouts, HTTP inspection and lingering close.
//!
//! Each part is a state machine in its own file; this file connects them to reads and writes.
//!
//! | part | effect | used by |
//! |---|---|---|
//! | [`Transport`] | TCP or TLS | all |
//! | [`IdleTimeout`] | reads and writes fail with `TimedOut` without traffic | all |
//! | [`LingeringClose`] | shutdown discards input until EOF | all |
//! | [`HttpInspection`] | read gate, frame budget, bare line feeds, GOAWAY | HTTP, gRPC |
//! | [`HeaderTimeout`] | reads fail with `TimedOut` within a header block | HTTP |

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    account::Account, header_timeout::HeaderTimeout, http_inspection::HttpInspection, idle_timeout::IdleTimeout,
    lingering_close::LingeringClose, request_counts::RequestCounts, transport::Transport,
};

/// The stream of one connection.
#[derive(Debug)]
pub struct ConnectionIo {
    transport: Transport,
    idle_timeout: IdleTimeout,
    http: Option<HttpInspection>,
    closing: Option<LingeringClose>,
}

impl ConnectionIo {
    /// `first_byte` until the first byte is received, then `idle` without traffic.
    pub(super) fn new(transport: Transport, first_byte: Duration, idle: Duration) -> Self {
        Self { transport, idle_timeout: IdleTimeout::new(first_byte, idle), http: None, closing: None }
    }

    /// Inspects the bytes as HTTP. A header block has the time limit, if any.
    pub(crate) fn inspect_http(
        mut self,
        account: Account,
        requests: RequestCounts,
        header_limit: Option<Duration>,
    ) -> Self {
        let header_timeout = header_limit.map(|limit| HeaderTimeout::new(requests.clone(), limit));
        self.http = Some(HttpInspection::new(account, requests, header_timeout));
        self
    }

    /// Reads from the transport, within the idle timeout.
    fn poll_transport(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.transport.stream().poll_read(cx, buf);
        if read.is_ready() {
            self.idle_timeout.received();
        }
        self.or_idle(read, cx)
    }

    /// An error instead of pending if the connection has been idle for too long.
    fn or_idle<T>(&mut self, result: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_pending() && self.idle_timeout.poll_expired(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        result
    }

    fn written(&mut self, result: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.idle_timeout.sent();
        }
        let result = self.or_idle(result, cx);
        if let Some(http) = &mut self.http {
            http.written(&result);
        }
        result
    }
}

impl AsyncRead for ConnectionIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(http) = &mut this.http else { return this.poll_transport(cx, buf) };
        if http.is_closing() {
            return Poll::Ready(http.read_end(buf));
        }
        let before = buf.filled().len();
        let read = match http.poll_gate(cx) {
            Poll::Ready(limit) => read_at_most(limit, buf, |buf| this.poll_transport(cx, buf)),
            Poll::Pending => Poll::Pending,
        };
        let Some(http) = &mut this.http else { return read };
        if read.is_pending() && http.is_header_late(cx) {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        if buf.filled().len() > before {
            let allowed = http.received(&buf.filled()[before..]);
            buf.set_filled(before + allowed);
            // An empty read would be EOF.
            if allowed == 0 {
                return Poll::Ready(http.read_end(buf));
            }
        }
        read
    }
}

impl AsyncWrite for ConnectionIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = this.transport.stream().poll_write(cx, buf);
        this.written(result, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = this.transport.stream().poll_write_vectored(cx, bufs);
        this.written(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    /// TLS buffers writes, so a peer that does not read is noticed here.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = this.transport.stream().poll_flush(cx);
        let result = this.or_idle(result, cx);
        if let Some(http) = &mut this.http {
            http.gate.written(result.is_ready());
        }
        result
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { transport, closing, .. } = self.get_mut();
        closing.get_or_insert_with(LingeringClose::new).poll(transport.stream(), cx)
    }
}

/// Reads into the first `limit` free bytes of a buffer.
fn read_at_most(
    limit: usize,
    buf: &mut ReadBuf<'_>,
    read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
) -> Poll<io::Result<()>> {
    if limit >= buf.remaining() {
        return read(buf);
    }
    let mut piece = ReadBuf::new(buf.initialize_unfilled_to(limit));
    let result = read(&mut piece);
    let count = piece.filled().len();
    buf.advance(count);
    result
}

#[cfg(test)]
mod tests;
