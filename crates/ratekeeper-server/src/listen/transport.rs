//! Transport of a connection: TCP, or TLS over TCP.
//!
//! [`Transport::stream`] hides which one it is, so that [`ConnectionIo`](super::ConnectionIo) implements reading and
//! writing once. Tests use an in-memory stream, which runs on tokio's paused clock.

use std::{pin::Pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use crate::security::Tls;

/// The byte stream below a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Tcp(TcpStream),
    /// The handshake is done.
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(test)]
    Memory(tokio::io::DuplexStream),
}

/// Both directions of a byte stream.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl Transport {
    /// Performs the TLS handshake if the port has TLS. `None` if it fails or exceeds the time limit.
    pub(super) async fn accept(stream: TcpStream, tls: Option<&Tls>, time_limit: Duration) -> Option<Self> {
        let Some(tls) = tls else { return Some(Self::Tcp(stream)) };
        match timeout(time_limit, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => Some(Self::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }

    /// The stream to read from and write to.
    pub(super) fn stream(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Tcp(stream) => Pin::new(stream as &mut dyn Duplex),
            Self::Tls(stream) => Pin::new(stream.as_mut() as &mut dyn Duplex),
            #[cfg(test)]
            Self::Memory(stream) => Pin::new(stream as &mut dyn Duplex),
        }
    }

    /// Whether one write can take several buffers.
    pub(super) fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(test)]
            Self::Memory(stream) => stream.is_write_vectored(),
        }
    }
}
