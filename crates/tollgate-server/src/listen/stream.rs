//! Bytes both ways: plain or under TLS, and with an end to patience.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::server::TlsStream;

use crate::security::Tls;

/// A connection, whatever it is wrapped in.
#[derive(Debug)]
pub enum Plain {
    /// Nothing.
    Tcp(TcpStream),
    /// TLS, with the handshake done.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Plain {
    /// Shakes hands if that is wanted. A peer that does not, or not in time, is not worth a word.
    pub(super) async fn open(stream: TcpStream, tls: Option<&Tls>, patience: Duration) -> Option<Self> {
        let Some(tls) = tls else { return Some(Self::Tcp(stream)) };
        match timeout(patience, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => Some(Self::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }
}

/// Reads that take too long fail: the first byte has its own time, later ones another. Once it has come, anything written
/// shows that the connection is alive, too; before it, we may be talking to nobody.
#[derive(Debug)]
pub struct Timed<S> {
    stream: S,
    idle: Duration,
    /// Whether the first byte has come.
    is_met: bool,
    alarm: Pin<Box<Sleep>>,
    /// When the alarm should go off. It is moved there only when it goes off too early: traffic would otherwise move a
    /// timer with every read.
    until: Instant,
}

impl<S> Timed<S> {
    /// So long for the first byte, so long between others.
    pub fn new(stream: S, first_byte: Duration, idle: Duration) -> Self {
        Self { stream, idle, is_met: false, alarm: Box::pin(sleep(first_byte)), until: Instant::now() + first_byte }
    }

    fn is_alive(&mut self) {
        if !self.is_met {
            return;
        }
        self.until = Instant::now() + self.idle;
        // Only the first byte may have set the alarm to less than this.
        if self.alarm.deadline() > self.until {
            self.alarm.as_mut().reset(self.until);
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        while self.alarm.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.until {
                return true;
            }
            self.alarm.as_mut().reset(self.until);
        }
        false
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending if self.is_over(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
            ready => {
                self.is_met = true;
                self.is_alive();
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            // A peer that takes nothing is as gone as one that says nothing.
            Poll::Pending if self.is_over(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
            ready => {
                self.is_alive();
                ready
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            // TLS takes more than the peer does, and waits for it here.
            Poll::Pending if self.is_over(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(cx, bufs) {
            Poll::Pending if self.is_over(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
            ready => {
                self.is_alive();
                ready
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl AsyncRead for Plain {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Plain {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
