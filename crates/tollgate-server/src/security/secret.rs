//! A text that is used and never shown.

use std::{fmt, fs, io, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Passwords, tokens, and addresses that may hold them. Neither `Debug` nor any error of ours prints it.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The first line of a file, without spaces around it.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let line = text.lines().next().unwrap_or_default().trim();
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty"));
        }
        Ok(Self(line.to_owned()))
    }

    /// The text, for use.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// A secret that callers present, where one is required: that of the admin port, and that of `/v1/auth`. Clones share it,
/// and see one that was read again.
#[derive(Clone, Debug, Default)]
pub struct RequiredSecret(Option<Arc<ArcSwap<Secret>>>);

impl RequiredSecret {
    /// This one, or none at all.
    pub fn new(secret: Option<Secret>) -> Self {
        Self(secret.map(|secret| Arc::new(ArcSwap::from_pointee(secret))))
    }

    /// Whether a caller who presents this may pass: the one in force, or anything where none is required. Compared as
    /// digests and in constant time.
    pub(crate) fn admits(&self, presented: Option<&[u8]>) -> bool {
        let Some(secret) = &self.0 else { return true };
        let presented = Sha256::digest(presented.unwrap_or_default());
        bool::from(presented.ct_eq(&Sha256::digest(secret.load().expose())))
    }

    /// Puts one that was read anew into force.
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
