//! A Lua script and its SHA-1, under which the server caches it.

use std::fmt;

/// Lua text with its SHA-1, computed once.
#[derive(Clone, Eq, PartialEq)]
pub struct Script {
    text: String,
    hash: String,
}

impl Script {
    /// A script of this text.
    pub fn new(text: String) -> Self {
        // The SHA-1 implementation of the `redis` crate; it is used for nothing else.
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1: forty hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("hash", &self.hash).field("bytes", &self.text.len()).finish()
    }
}
