//! The name a counter is kept under: the values that a policy counts apart.
//!
//! One value is the key as it is, so that a rule file and a library that names the same domain, policy and key count
//! together. Several are put together with their lengths, so that ("a", "b:c") and ("a:b", "c") never meet.
//!
//! Values are what a stranger wrote into a header, as long as the stranger likes. A name that would be too long is its
//! beginning and a digest: a key like any other. Were it an error, gateways that let pass what fails would let it pass.

use std::{borrow::Cow, fmt::Write};

use sha2::{Digest, Sha256};
use tollgate_core::bounds::MAX_KEY_BYTES;

/// The key of these values, in order.
pub(crate) fn of_values<'a>(values: &[&'a str]) -> Cow<'a, str> {
    match values {
        // Everybody whom the policy is for is counted as one. No caller can name this key: theirs are not empty.
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
pub(crate) fn of_value(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_KEY_BYTES { Cow::Borrowed(value) } else { Cow::Owned(shortened(value)) }
}

/// The beginning of a text, for people, and a digest of all of it: the same in every process, another for another text.
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

/// The same for values that were kept.
pub(crate) fn of_owned(values: &[String]) -> String {
    of_values(&values.iter().map(String::as_str).collect::<Vec<_>>()).into_owned()
}

/// The key of a whole descriptor, keys and values.
pub(crate) fn of_entries(entries: &[(&str, &str)]) -> String {
    let parts: Vec<&str> = entries.iter().flat_map(|(key, value)| [*key, *value]).collect();
    of_values(&parts).into_owned()
}

/// What is left of a text that is shortened.
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
    fn a_long_name_is_its_beginning_and_a_digest() {
        let most = "a".repeat(MAX_KEY_BYTES);
        assert_eq!(of_values(&[&most]), most, "as long as may be is left alone");
        let long = format!("{}é{}", "a".repeat(SHOWN_BYTES - 1), "b".repeat(MAX_KEY_BYTES));
        let short = of_values(&[&long]);
        let (beginning, digest) = short.split_once("…sha256:").unwrap();
        assert_eq!(beginning, "a".repeat(SHOWN_BYTES - 1), "cut before the character that does not fit");
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        // Written down once: processes of different versions share a store.
        assert_eq!(
            of_values(&[&"k".repeat(5_000)]),
            format!("{}…sha256:622b8b1d5094d382aa519349554c0ea84a43c90b4aad7ddfae8f338690c7f7ea", "k".repeat(64))
        );

        assert_eq!(of_values(&[&long]), short, "equal for equal values");
        assert_ne!(of_values(&[&format!("{long}.")]), short);
        let together = of_values(&[&most, "x"]);
        assert!(together.starts_with("4096:aaa") && together.len() < 200, "{together}");
        assert_ne!(of_values(&[&most, "y"]), together);
        assert_ne!(of_values(&[&format!("{most}x")]), together);
    }
}
