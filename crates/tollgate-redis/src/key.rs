//! The name of a key on the server.
//!
//! ```text
//!   tollgate:1:api/per-user:{user:42}
//!   prefix   │ domain/policy  └ hash tag: the key
//!            └ version of names and values
//! ```
//!
//! Every part is written so that it cannot be mistaken for another: slashes, braces, percent signs and everything that
//! is not printable ASCII become `%` and two digits. So no two subjects share a name, and braces in somebody's key do
//! not choose the slot. The key alone is the hash tag: what several policies remember of one key lies in one slot of a
//! cluster, and can be decided in one step. Long keys are replaced by their digest.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tollgate_core::Policy;

/// What the hash tag is made of, which decides the slot in a cluster.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Together {
    /// Keys spread over the cluster; what several policies remember of one key stays together.
    #[default]
    ByKey,
    /// All keys of a domain lie in one slot, and any of them can be decided in one step. One node bears all the load.
    ByDomain,
}

/// Everything of a key's name that comes before the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPrefix {
    before: String,
    after: &'static str,
}

impl KeyPrefix {
    pub(crate) fn new(prefix: &str, together: Together, policy: &Policy) -> Self {
        let (domain, name) = (written(policy.domain()), written(policy.name()));
        match together {
            Together::ByKey => Self { before: format!("{prefix}:{VERSION}:{domain}/{name}:{{"), after: "}" },
            // The tag must not be empty, or the server would take the whole name for it.
            Together::ByDomain => Self { before: format!("{prefix}:{VERSION}:{{/{domain}}}/{name}/"), after: "" },
        }
    }

    /// The name of a key.
    pub(crate) fn name(&self, key: &str) -> Vec<u8> {
        let mut name = String::with_capacity(self.before.len() + key.len() + 8);
        name.push_str(&self.before);
        if key.len() > LONGEST_IN_THE_CLEAR {
            name.push('#');
            for byte in &Sha256::digest(key.as_bytes())[..DIGEST_BYTES] {
                let _ = write!(name, "{byte:02x}");
            }
        } else if key.is_empty() {
            // An empty tag is none at all.
            name.push('%');
        } else {
            write_into(&mut name, key);
        }
        name.push_str(self.after);
        name.into_bytes()
    }
}

/// Where a process notes the last of its charges that was carried out for a key. A key's own name never holds a `#` but
/// at the beginning of its digest, so no key has this name; and the hash tag is the key's.
pub(crate) fn charges_name(name: &[u8], process: u64) -> Vec<u8> {
    [name, format!("#charged:{process:016x}").as_bytes()].concat()
}

/// The name of the place where rules are written down, for those who meet values that were counted under them.
pub(crate) fn definition_name(prefix: &str, fingerprint: u64) -> Vec<u8> {
    format!("{prefix}:{VERSION}:rules:{fingerprint:010x}").into_bytes()
}

fn written(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    write_into(&mut out, part);
    out
}

fn write_into(out: &mut String, part: &str) {
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

/// Of names and of values: a release that lays out either in another way counts on, and the two never meet.
const VERSION: u32 = 1;
/// Longer keys are told apart by digest: 128 bits of it, so that nobody can find two that share one.
const LONGEST_IN_THE_CLEAR: usize = 128;
const DIGEST_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::{Quota, Rule};

    fn name(domain: &str, policy: &str, key: &str) -> String {
        let policy = Policy::new(policy, [Rule::token_bucket("r", Quota::per_second(1))]).unwrap();
        let policy = if domain.is_empty() { policy } else { policy.in_domain(domain).unwrap() };
        String::from_utf8(KeyPrefix::new("tollgate", Together::ByKey, &policy).name(key)).unwrap()
    }

    #[test]
    fn names_can_be_read_by_people() {
        assert_eq!(name("api", "per-user", "user:42"), "tollgate:1:api/per-user:{user:42}");
        assert_eq!(name("", "default", ""), "tollgate:1:/default:{%}");
    }

    #[test]
    fn nothing_in_a_key_can_be_taken_for_our_own_marks() {
        assert_eq!(name("api", "p", "a}b{c/%#"), "tollgate:1:api/p:{a%7db%7bc%2f%25%23}");
        assert_eq!(name("a/b", "c", "k"), "tollgate:1:a%2fb/c:{k}");
        assert_ne!(name("a/b", "c", "k"), name("a", "b/c", "k"));
        assert_eq!(name("ü", "p", "a b\n"), "tollgate:1:%c3%bc/p:{a%20b%0a}");
        assert_ne!(name("a", "p", "%"), name("a", "p", ""));
    }

    #[test]
    fn long_keys_are_told_apart_by_digest() {
        let (one, other) = ("x".repeat(4_000), format!("{}y", "x".repeat(3_999)));
        assert_ne!(name("a", "p", &one), name("a", "p", &other));
        assert!(name("a", "p", &one).starts_with("tollgate:1:a/p:{#"));
        assert!(name("a", "p", &one).len() < 60);
        assert_eq!(name("a", "p", &"x".repeat(128)).len(), "tollgate:1:a/p:{}".len() + 128);
    }
}
