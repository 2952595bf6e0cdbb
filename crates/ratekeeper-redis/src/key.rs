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

use std::fmt::Write;

use ratekeeper_core::Policy;
use sha2::{Digest, Sha256};

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
    pub(crate) fn name(&self, key: &str) -> Vec<u8> {
        let mut name = String::with_capacity(self.before.len() + key.len() + 8);
        name.push_str(&self.before);
        if key.len() > MAX_PLAIN_BYTES {
            name.push('#');
            for byte in &Sha256::digest(key.as_bytes())[..DIGEST_BYTES] {
                let _ = write!(name, "{byte:02x}");
            }
        } else if key.is_empty() {
            // An empty tag would be none.
            name.push('%');
        } else {
            push_escaped(&mut name, key);
        }
        name.push_str(self.after);
        name.into_bytes()
    }
}

/// The name under which the last operation id of a process is stored for a key. It has the same hash tag. No key has this
/// name, because a `#` in a key's name occurs only at the start of a digest.
pub(crate) fn charges_name(name: &[u8], process: u64) -> Vec<u8> {
    [name, format!("#charged:{process:016x}").as_bytes()].concat()
}

/// The name under which the definition of rules is stored.
pub(crate) fn definition_name(prefix: &str, fingerprint: u64) -> Vec<u8> {
    format!("{prefix}:{VERSION}:rules:{fingerprint:010x}").into_bytes()
}

fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    push_escaped(&mut out, part);
    out
}

fn push_escaped(out: &mut String, part: &str) {
    for byte in part.bytes() {
        match byte {
            b'%' | b'/' | b'{' | b'}' | b'#' => {
                let _ = write!(out, "%{byte:02x}");
            }
            b'!'..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02x}");
            }
        }
    }
}

/// Version of names and values. A release with another layout uses another number, so that it never reads these.
const VERSION: u32 = 1;
/// Longer keys are replaced by 128 bits of their SHA-256, for which a collision cannot be found.
const MAX_PLAIN_BYTES: usize = 128;
const DIGEST_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::{Quota, Rule};

    fn name(domain: &str, policy: &str, key: &str) -> String {
        let policy = Policy::new(policy, [Rule::token_bucket("r", Quota::per_second(1))]).unwrap();
        let policy = if domain.is_empty() { policy } else { policy.in_domain(domain).unwrap() };
        String::from_utf8(KeyPrefix::new("ratekeeper", Together::ByKey, &policy).name(key)).unwrap()
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
