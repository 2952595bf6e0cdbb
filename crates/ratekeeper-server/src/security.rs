//! Security: TLS certificates, bearer tokens, and secrets that never reach a log.

mod secret;
mod tls;
mod tokens;

pub use self::{
    secret::{RequiredSecret, Secret},
    tls::{Tls, TlsError, TlsFiles},
    tokens::{Access, Pass, TokenDigest, TokenError, Tokens},
};
