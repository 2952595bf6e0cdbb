//! A script, and the hash the server knows it by.

use std::fmt;

/// Lua text with its SHA-1, reckoned once.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        // `redis` brings SHA-1 for scripts of its own; it is used for nothing else here.
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The whole text, for a server that has never seen it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Forty hexadecimal digits.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("hash", &self.hash).field("bytes", &self.text.len()).finish()
    }
}
