//! Who may ask: certificates, tokens, and secrets that never reach a log.

mod doors;
mod secret;
mod tls;
mod tokens;

pub(crate) use self::doors::{OpenDoor, open_doors};
pub use self::{
    secret::{RequiredSecret, Secret},
    tls::{Tls, TlsError, TlsFiles},
    tokens::{Access, Pass, TokenDigest, TokenError, Tokens},
};
