//! The name a counter is kept under: the values that a policy counts apart.
//!
//! One value is the key as it is, so that a rule file and a library that names the same domain, policy and key count
//! together. Several are put together with their lengths, so that ("a", "b:c") and ("a:b", "c") never meet.

use std::{borrow::Cow, fmt::Write};

/// The key of these values, in order.
pub(crate) fn of_values<'a>(values: &[&'a str]) -> Cow<'a, str> {
    match values {
        // Everybody whom the policy is for is counted as one. No caller can name this key: theirs are not empty.
        [] => Cow::Borrowed(""),
        [value] => Cow::Borrowed(value),
        values => {
            let mut key = String::with_capacity(values.iter().map(|value| value.len() + 5).sum());
            for value in values {
                // Writing into a string cannot fail.
                let _ = write!(key, "{}:{value}", value.len());
            }
            Cow::Owned(key)
        }
    }
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
}
