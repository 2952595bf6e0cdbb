//! Secrets: strings that are never printed, and the secrets that clients have to present.

use std::{fmt, fs, io, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A password, a token, or an address that may contain one. `Debug` does not print it, and there is no `Display`.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The first line of a file, trimmed. An empty line is an error.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let line = text.lines().next().unwrap_or_default().trim();
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty"));
        }
        Ok(Self(line.to_owned()))
    }

    /// The string itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// A secret that clients have to present, if one is configured: the admin token, or the secret of `/v1/auth`. Clones
/// share it and see a reloaded one.
#[derive(Clone, Debug, Default)]
pub struct RequiredSecret(Option<Arc<ArcSwap<Secret>>>);

impl RequiredSecret {
    /// Requires this secret; `None` requires none.
    pub fn new(secret: Option<Secret>) -> Self {
        Self(secret.map(|secret| Arc::new(ArcSwap::from_pointee(secret))))
    }

    /// Whether the presented secret is the one in force. Always true if none is required. Digests are compared, in
    /// constant time.
    pub(crate) fn admits(&self, presented: Option<&[u8]>) -> bool {
        let Some(secret) = &self.0 else { return true };
        let presented = Sha256::digest(presented.unwrap_or_default());
        bool::from(presented.ct_eq(&Sha256::digest(secret.load().expose())))
    }

    /// Replaces the secret. Has no effect if none is required.
    pub(crate) fn renew(&self, token: Secret) {
        if let Some(current) = &self.0 {
            current.store(Arc::new(token));
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}
