//! Errors of the HTTP client, each with a remedy.

use std::{error::Error, fmt, io};

use http_body_util::LengthLimitError;
use tokio_rustls::rustls::{self, CertificateError};

/// Why there is no response.
#[derive(Debug)]
pub(super) enum ClientError {
    /// The connection failed.
    Unreachable(io::Error),
    /// No response before the timeout.
    TimedOut,
    /// The server's certificate is not trusted.
    UntrustedCertificate(CertificateError),
    /// The server rejected the TLS handshake.
    HandshakeRejected(rustls::Error),
    /// The response is not TLS.
    NotTls,
    /// Another TLS error.
    Tls(rustls::Error),
    /// The response is not HTTP, or was cut off.
    NotHttp { cause: String, secure: bool },
    /// The response exceeds the bound.
    ResponseTooLong,
}

impl ClientError {
    /// Classifies an error by its cause.
    pub(super) fn new(error: &(dyn Error + 'static), secure: bool) -> Self {
        match tls_error(error) {
            Some(rustls::Error::InvalidCertificate(cause)) => Self::UntrustedCertificate(cause.clone()),
            Some(cause @ rustls::Error::AlertReceived(_)) => Self::HandshakeRejected(cause.clone()),
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            Some(cause) => Self::Tls(cause.clone()),
            None if error.is::<LengthLimitError>() => Self::ResponseTooLong,
            None => Self::NotHttp { cause: innermost(error).to_string(), secure },
        }
    }
}

/// rustls errors are wrapped in `io::Error`, whose `source` skips them.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref()) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

impl Error for ClientError {}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(cause) => write!(f, "no answer: {cause}; is `ratekeeper serve` running there?"),
            Self::TimedOut => f.write_str("no answer within 5 seconds; is that a ratekeeper server?"),
            Self::UntrustedCertificate(CertificateError::UnknownIssuer) => f.write_str(
                "its certificate is signed by an unknown authority; name that authority with --ca FILE, if it is the right server",
            ),
            Self::UntrustedCertificate(cause) => write!(f, "its certificate cannot be trusted: {cause}"),
            Self::HandshakeRejected(cause) => {
                write!(f, "it rejected the TLS handshake: {cause}; if it requires client certificates, give one with --cert and --key")
            }
            Self::NotTls => f.write_str("the response is not TLS; if the server speaks plain HTTP, use http://"),
            Self::Tls(cause) => write!(f, "TLS failed: {cause}"),
            Self::NotHttp { cause, secure: false } => {
                write!(f, "the response is not HTTP: {cause}; if the server speaks TLS, use https://")
            }
            // A server that rejects a client certificate may close before its alert is read.
            Self::NotHttp { cause, secure: true } => write!(
                f,
                "it closed the connection, or the response is not HTTP: {cause}; if it requires client certificates, give one with --cert and --key"
            ),
            Self::ResponseTooLong => f.write_str("the response is longer than 16 MiB; is that a ratekeeper server?"),
        }
    }
}
