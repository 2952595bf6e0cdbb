//! Names of keys on the server.
//!
//! ```text
//!   ratekeeper:1:api/per-user:{user:42}
//!   prefix   │ domain/policy  └ hash tag: the key
//!            └ version of names and values
//! ```
//!
//! Slashes, braces, percent signs, `#` and all bytes that are not printable ASCII become `%` and two hexadecimal digits. So
//! no two keys share a name, and braces in a key do not change its slot. The key alone is the hash tag: the state of one key
//! under several policies is in one slot of a cluster, and can be decided by one script. Long keys are replaced by their
//! digest.

use std::{fmt::Write, slice};

use ratekeeper_core::{Policy, RequestId};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// A name on the server, inline if it is as short as most are.
pub(crate) type KeyName = SmallVec<[u8; INLINE_BYTES]>;

/// What the hash tag consists of, which determines the slot in a cluster.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Together {
    /// The key: keys spread over the cluster, and all policies of one key share a slot.
    #[default]
    ByKey,
    /// The domain: all keys of a domain share a slot, and any of them can be decided by one script. One node has all the
    /// load.
    ByDomain,
}

/// The parts of a name before and after the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPrefix {
    before: String,
    after: &'static str,
}

impl KeyPrefix {
    pub(crate) fn new(prefix: &str, together: Together, policy: &Policy) -> Self {
        let (domain, name) = (escaped(policy.domain()), escaped(policy.name()));
        match together {
            Together::ByKey => Self { before: format!("{prefix}:{VERSION}:{domain}/{name}:{{"), after: "}" },
            // The slash keeps the tag from being empty: then the server would hash the whole name.
            Together::ByDomain => Self { before: format!("{prefix}:{VERSION}:{{/{domain}}}/{name}/"), after: "" },
        }
    }

    /// The name of this key.
    pub(crate) fn name(&self, key: &str) -> KeyName {
        let tag = HashTag::of(key);
        let length = self.before.len() + tag.len() + self.after.len();
        let mut inline = [0; INLINE_BYTES];
        let mut heap = Vec::new();
        let out = match inline.get_mut(..length) {
            Some(inline) => inline,
            None => {
                heap.resize(length, 0);
                heap.as_mut_slice()
            }
        };
        let (before, rest) = out.split_at_mut(self.before.len());
        let (middle, after) = rest.split_at_mut(tag.len());
        before.copy_from_slice(self.before.as_bytes());
        tag.write(middle);
        after.copy_from_slice(self.after.as_bytes());
        if heap.is_empty() { KeyName::from_buf_and_len(inline, length) } else { KeyName::from_vec(heap) }
    }
}

/// The key as its name contains it.
enum HashTag<'a> {
    Plain(&'a [u8]),
    Escaped { key: &'a [u8], escapes: usize },
    Digest(String),
}

impl<'a> HashTag<'a> {
    fn of(key: &'a str) -> Self {
        let key = key.as_bytes();
        if key.len() > MAX_PLAIN_BYTES {
            let digest = Sha256::digest(key);
            return Self::Digest(digest[..DIGEST_BYTES].iter().fold("#".to_owned(), |mut tag, byte| {
                let _ = write!(tag, "{byte:02x}");
                tag
            }));
        }
        match key.iter().filter(|byte| !is_plain(**byte)).count() {
            // An empty tag would be none.
            _ if key.is_empty() => Self::Plain(b"%"),
            0 => Self::Plain(key),
            escapes => Self::Escaped { key, escapes },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(key) => key.len(),
            Self::Escaped { key, escapes } => key.len() + 2 * escapes,
            Self::Digest(tag) => tag.len(),
        }
    }

    /// Writes it to a slice of its length.
    fn write(&self, mut out: &mut [u8]) {
        match self {
            Self::Plain(key) => out.copy_from_slice(key),
            Self::Digest(tag) => out.copy_from_slice(tag.as_bytes()),
            Self::Escaped { key, .. } => {
                for byte in *key {
                    let escape = [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                    let bytes = if is_plain(*byte) { slice::from_ref(byte) } else { &escape };
                    let Some((own, rest)) = out.split_at_mut_checked(bytes.len()) else { return };
                    own.copy_from_slice(bytes);
                    out = rest;
                }
            }
        }
    }
}

/// The name under which the last operation id of a process is stored for a key. It has the same hash tag. No key has this
/// name, because a `#` in a key's name occurs only at the start of a digest.
pub(crate) fn charges_name(name: &[u8], process: u64) -> Vec<u8> {
    [name, format!("#charged:{process:016x}").as_bytes()].concat()
}

/// The name under which the record of a request with this id is stored for a key. It has the same hash tag.
pub(crate) fn record_name(name: &[u8], id: RequestId) -> Vec<u8> {
    [name, format!("#id:{id}").as_bytes()].concat()
}

/// The name under which the definition of rules is stored.
pub(crate) fn definition_name(prefix: &str, fingerprint: u64) -> Vec<u8> {
    format!("{prefix}:{VERSION}:rules:{fingerprint:010x}").into_bytes()
}

fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

/// Whether a byte is itself in a name.
fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'%' | b'/' | b'{' | b'}' | b'#');
        byte += 1;
    }
    plain
};

/// Version of names and values. A release with another layout uses another number, so that it never reads these.
const VERSION: u32 = 1;
/// Longer keys are replaced by 128 bits of their SHA-256, for which a collision cannot be found.
const MAX_PLAIN_BYTES: usize = 128;
const DIGEST_BYTES: usize = 16;
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Longer names are on the heap.
const INLINE_BYTES: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::{Quota, Rule};

    fn name(domain: &str, policy: &str, key: &str) -> String {
        let policy = Policy::new(policy, [Rule::token_bucket("r", Quota::per_second(1))]).unwrap();
        let policy = if domain.is_empty() { policy } else { policy.in_domain(domain).unwrap() };
        String::from_utf8(KeyPrefix::new("ratekeeper", Together::ByKey, &policy).name(key).to_vec()).unwrap()
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(name("api", "per-user", "user:42"), "ratekeeper:1:api/per-user:{user:42}");
        assert_eq!(name("", "default", ""), "ratekeeper:1:/default:{%}");
    }

    #[test]
    fn delimiters_in_a_key_are_escaped() {
        assert_eq!(name("api", "p", "a}b{c/%#"), "ratekeeper:1:api/p:{a%7db%7bc%2f%25%23}");
        assert_eq!(name("a/b", "c", "k"), "ratekeeper:1:a%2fb/c:{k}");
        assert_ne!(name("a/b", "c", "k"), name("a", "b/c", "k"));
        assert_eq!(name("ü", "p", "a b\n"), "ratekeeper:1:%c3%bc/p:{a%20b%0a}");
        assert_ne!(name("a", "p", "%"), name("a", "p", ""));
    }

    #[test]
    fn long_keys_are_replaced_by_their_digest() {
        let (one, other) = ("x".repeat(4_000), format!("{}y", "x".repeat(3_999)));
        assert_ne!(name("a", "p", &one), name("a", "p", &other));
        assert!(name("a", "p", &one).starts_with("ratekeeper:1:a/p:{#"));
        assert!(name("a", "p", &one).len() < 60);
        assert_eq!(name("a", "p", &"x".repeat(128)).len(), "ratekeeper:1:a/p:{}".len() + 128);
    }
}
