//! Ids of requests, chosen by callers.
//!
//! A request with an id is charged once: sent again within the id's lifetime, it gets the decision of the first time. The
//! scope of an id is one key under one policy.
//!
//! Only a digest is kept: 128 bits of FNV-1a. Two ids of one key with the same digest would count as one request, which
//! harms only a caller that looks for such a pair; it could as well send one id twice.

use std::fmt;

use crate::{bounds::MAX_ID_BYTES, time::Span};

/// The name of one request: a digest of the caller's text.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId([u8; 16]);

/// A text that cannot be an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the id has {found} bytes; write 1 to {MAX_ID_BYTES}")]
pub struct RequestIdError {
    /// How long it is.
    pub found: usize,
}

impl RequestId {
    /// The id with this text, of 1 to [`MAX_ID_BYTES`] bytes.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, RequestIdError> {
        let text = text.as_ref();
        if text.is_empty() || text.len() > MAX_ID_BYTES {
            return Err(RequestIdError { found: text.len() });
        }
        Ok(Self::of(text))
    }

    /// The id with this text, of any length.
    pub fn of(text: impl AsRef<[u8]>) -> Self {
        let mix = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME);
        Self(text.as_ref().iter().fold(FNV_START, mix).to_be_bytes())
    }

    /// The id with this digest.
    pub const fn from_bytes(digest: [u8; 16]) -> Self {
        Self(digest)
    }

    /// Its digest.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The digest in hexadecimal.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// How long an id is remembered if the caller does not say.
pub const DEFAULT_LIFETIME: Span = Span::MINUTE;

const FNV_START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests are stored in Redis, so they must not change between releases. The values are those of the reference
    /// implementation of FNV-1a with 128 bits.
    #[test]
    fn digests_are_fnv_1a() {
        let digest = |text: &str| RequestId::new(text).unwrap().to_string();
        assert_eq!(digest("a"), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(digest("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn length_is_bounded() {
        assert_eq!(RequestId::new(""), Err(RequestIdError { found: 0 }));
        assert!(RequestId::new("x".repeat(MAX_ID_BYTES)).is_ok());
        let error = RequestId::new("x".repeat(MAX_ID_BYTES + 1)).unwrap_err();
        assert_eq!(error.to_string(), "the id has 257 bytes; write 1 to 256");
    }
}
