//! A text that is used and never shown.

use std::{fmt, fs, io, path::Path, sync::Arc};

use arc_swap::ArcSwap;

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

/// The token of the admin port, if it has one. Clones share it, and see one that was read anew.
#[derive(Clone, Debug, Default)]
pub struct AdminToken(Option<Arc<ArcSwap<Secret>>>);

impl AdminToken {
    /// This one, or none at all.
    pub fn new(token: Option<Secret>) -> Self {
        Self(token.map(|token| Arc::new(ArcSwap::from_pointee(token))))
    }

    /// The one in force.
    pub(crate) fn current(&self) -> Option<Arc<Secret>> {
        self.0.as_ref().map(|token| token.load_full())
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
