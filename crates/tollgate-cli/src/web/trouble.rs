//! Why there was no answer, and what may help.

use std::{error::Error, fmt, io};

use http_body_util::LengthLimitError;
use tokio_rustls::rustls::{self, CertificateError};

#[derive(Debug)]
pub(crate) enum Trouble {
    /// No connection came about.
    Unreachable(io::Error),
    /// Nothing, for too long.
    Silent,
    /// The server's certificate is not good enough.
    Untrusted(CertificateError),
    /// The server would not go on with TLS.
    TurnedAway(rustls::Error),
    /// It speaks, but not TLS.
    NotTls,
    /// TLS went wrong in another way.
    Tls(rustls::Error),
    /// It speaks, but not HTTP, or stopped in its midst.
    NotHttp { cause: String, secure: bool },
    /// More than any tollgate server answers.
    TooLong,
}

impl Trouble {
    /// Finds in an error what people can do something about.
    pub(super) fn new(error: &(dyn Error + 'static), secure: bool) -> Self {
        match tls_error(error) {
            Some(rustls::Error::InvalidCertificate(cause)) => Self::Untrusted(cause.clone()),
            Some(cause @ rustls::Error::AlertReceived(_)) => Self::TurnedAway(cause.clone()),
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            Some(cause) => Self::Tls(cause.clone()),
            None if error.is::<LengthLimitError>() => Self::TooLong,
            None => Self::NotHttp { cause: innermost(error).to_string(), secure },
        }
    }
}

/// An error of TLS travels inside one of the system, which tells its own cause and not this one.
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

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(cause) => write!(f, "no answer: {cause}; is `tollgate serve` running there?"),
            Self::Silent => f.write_str("no answer within 5 seconds; is that a tollgate server?"),
            Self::Untrusted(CertificateError::UnknownIssuer) => f.write_str(
                "its certificate was signed by nobody whom we trust; name its authority with --ca FILE, if it is the right server",
            ),
            Self::Untrusted(cause) => write!(f, "its certificate cannot be trusted: {cause}"),
            Self::TurnedAway(cause) => {
                write!(f, "it ended the conversation: {cause}; if it asks for certificates, show one with --cert and --key")
            }
            Self::NotTls => f.write_str("what came back is not TLS; if it speaks plain HTTP, use http://"),
            Self::Tls(cause) => write!(f, "no TLS could be spoken: {cause}"),
            Self::NotHttp { cause, secure: false } => {
                write!(f, "what came back is not HTTP: {cause}; if it speaks TLS, use https://")
            }
            // A server that turns somebody away may close so soon that its reason is lost on the way.
            Self::NotHttp { cause, secure: true } => write!(
                f,
                "it ended the conversation, or speaks no HTTP: {cause}; if it asks for certificates, show one with --cert and --key"
            ),
            Self::TooLong => f.write_str("the answer is longer than 16 MiB; is that a tollgate server?"),
        }
    }
}
