//! Keys of matched requests: the values that a rule counts by, as one string.
//!
//! A single value is the key unchanged, so that a limiter in a program with the same domain, policy and key shares the
//! count. Several values are joined with their lengths, so that ("a", "b:c") and ("a:b", "c") have different keys.
//!
//! Bound: values come from clients and have any length. A key longer than [`MAX_KEY_BYTES`] becomes its prefix and a
//! digest of the whole. It is not an error, because a gateway that fails open would admit the request.

use std::{borrow::Cow, fmt::Write};

use ratekeeper_core::bounds::MAX_KEY_BYTES;
use sha2::{Digest, Sha256};

/// The key of these values, in order.
pub fn of_values<'a>(values: &[&'a str]) -> Cow<'a, str> {
    match values {
        // All requests of the policy share one count. Keys of callers are never empty, so none equals this one.
        [] => Cow::Borrowed(""),
        [value] => of_value(value),
        values => {
            let mut key = String::with_capacity(values.iter().map(|value| value.len() + 5).sum());
            for value in values {
                // Writing into a string cannot fail.
                let _ = write!(key, "{}:{value}", value.len());
            }
            Cow::Owned(if key.len() <= MAX_KEY_BYTES { key } else { shortened(&key) })
        }
    }
}

/// The key of one value.
#[inline]
pub fn of_value(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_KEY_BYTES { Cow::Borrowed(value) } else { Cow::Owned(shortened(value)) }
}

/// The prefix of a text and the SHA-256 digest of the whole: deterministic, and collision-resistant.
#[cold]
fn shortened(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = format!("{}…sha256:", &text[..end]);
    for byte in Sha256::digest(text) {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

/// The key of these values, in order.
pub fn of_owned(values: &[String]) -> String {
    of_values(&values.iter().map(String::as_str).collect::<Vec<_>>()).into_owned()
}

/// The key of a whole descriptor: keys and values of its entries, in order.
pub fn of_entries(entries: &[(&str, &str)]) -> String {
    let parts: Vec<&str> = entries.iter().flat_map(|(key, value)| [*key, *value]).collect();
    of_values(&parts).into_owned()
}

/// The most bytes of the prefix of a truncated key.
const SHOWN_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_never_share_a_key() {
        let lists: [&[&str]; 8] = [
            &["a", "b:c"],
            &["a:b", "c"],
            &["1:a", "1:b"],
            &["", "a"],
            &["a", ""],
            &["", ""],
            &["1", "1:11:1"],
            &["1", "1", "1"],
        ];
        for (index, one) in lists.iter().enumerate() {
            for other in &lists[index + 1..] {
                assert_ne!(of_values(one), of_values(other), "{one:?} {other:?}");
            }
        }
        assert_eq!(of_values(&["user:42"]), "user:42");
    }

    #[test]
    fn a_long_key_is_its_beginning_and_a_digest() {
        let most = "a".repeat(MAX_KEY_BYTES);
        assert_eq!(of_values(&[&most]), most, "the longest key that is not cut");
        let long = format!("{}é{}", "a".repeat(SHOWN_BYTES - 1), "b".repeat(MAX_KEY_BYTES));
        let short = of_values(&[&long]);
        let (beginning, digest) = short.split_once("…sha256:").unwrap();
        assert_eq!(beginning, "a".repeat(SHOWN_BYTES - 1), "cut before the character that does not fit");
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        // A constant: processes of different versions share a store.
        assert_eq!(
            of_values(&[&"k".repeat(5_000)]),
            format!("{}…sha256:622b8b1d5094d382aa519349554c0ea84a43c90b4aad7ddfae8f338690c7f7ea", "k".repeat(64))
        );

        assert_eq!(of_values(&[&long]), short, "equal for equal values");
        assert_ne!(of_values(&[&format!("{long}.")]), short);
        let joined = of_values(&[&most, "x"]);
        assert!(joined.starts_with("4096:aaa") && joined.len() < 200, "{joined}");
        assert_ne!(of_values(&[&most, "y"]), joined);
        assert_ne!(of_values(&[&format!("{most}x")]), joined);
    }
}
