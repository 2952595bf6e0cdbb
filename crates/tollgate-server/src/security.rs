//! Who may ask: certificates, tokens, and secrets that never reach a log.

mod secret;
mod tls;
mod tokens;

pub use self::{
    secret::Secret,
    tls::{Tls, TlsError, TlsFiles},
    tokens::{Access, Pass, TokenError, Tokens},
};
