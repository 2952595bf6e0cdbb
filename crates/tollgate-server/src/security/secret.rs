//! A text that is used and never shown.

use std::{fmt, fs, io, path::Path};

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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}
