//! Wildcard patterns in descriptor values: `/api/*/action`, where each `*` matches any text, including the empty one.
//!
//! The pattern is split at its stars once, into a prefix, inner parts and a suffix. Prefix and suffix are compared with
//! the ends of a value. The inner parts are searched from left to right, each after the end of the one before. The
//! leftmost occurrence of each part leaves the most text for the rest, so the search never backtracks.
//!
//! Bound: one pass over the value.

/// A pattern with at least one `*`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Wildcard {
    written: Box<str>,
    prefix: Box<str>,
    inner: Box<[Box<str>]>,
    suffix: Box<str>,
}

impl Wildcard {
    /// The pattern of a value; `None` if it has no `*`.
    pub fn new(value: &str) -> Option<Self> {
        let (prefix, rest) = value.split_once('*')?;
        let (inner, suffix) = rest.rsplit_once('*').map_or((None, rest), |(inner, suffix)| (Some(inner), suffix));
        let inner = inner.into_iter().flat_map(|parts| parts.split('*')).filter(|part| !part.is_empty());
        let inner = inner.map(Into::into).collect();
        Some(Self { written: value.into(), prefix: prefix.into(), inner, suffix: suffix.into() })
    }

    /// Whether a value matches.
    pub fn matches(&self, value: &str) -> bool {
        let rest = value.strip_prefix(&*self.prefix).and_then(|rest| rest.strip_suffix(&*self.suffix));
        let left = self.inner.iter().try_fold(rest, |rest, part| {
            let rest = rest?;
            rest.find(&**part).map(|start| Some(&rest[start + part.len()..]))
        });
        left.flatten().is_some()
    }

    /// The text before the first `*`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The texts between stars, in order; none is empty.
    pub fn inner(&self) -> &[Box<str>] {
        &self.inner
    }

    /// The text after the last `*`.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// The pattern as written.
    pub fn written(&self) -> &str {
        &self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Wildcard::new(pattern).unwrap().matches(value)
    }

    #[test]
    fn a_star_matches_any_text_at_any_position() {
        for (pattern, fitting, others) in [
            ("foo*", &["foo", "foobar", "foo*"][..], &["fo", "xfoo", ""][..]),
            ("*", &["", "x", "a/b"], &[]),
            ("*.example.com", &[".example.com", "a.example.com"], &["example.com", "a.example.com.evil"]),
            (
                "/api/*/action",
                &["/api/7/action", "/api//action", "/api/a/b/action"],
                &["/api/action", "/api/7/actions"],
            ),
            ("bar*b", &["barb", "bar b b"], &["bar", "bab", "ba"]),
            ("a*b*c", &["abc", "aXbYbc", "abbc"], &["acb", "ab", "bc"]),
            ("**a**", &["a", "xay"], &["", "b"]),
            ("aa*aa", &["aaaa", "aaxaa"], &["aaa", "aa"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["aba", "ab"]),
            ("é*ü", &["éü", "éxü"], &["é"]),
        ] {
            assert!(fitting.iter().all(|value| matches(pattern, value)), "{pattern} matches {fitting:?}");
            assert!(!others.iter().any(|value| matches(pattern, value)), "{pattern} matches none of {others:?}");
        }
        assert_eq!(Wildcard::new("plain"), None);
    }

    /// The oracle: tries every split.
    fn slowly(pattern: &[u8], value: &[u8]) -> bool {
        match pattern {
            [] => value.is_empty(),
            [b'*', rest @ ..] => (0..=value.len()).any(|skip| slowly(rest, &value[skip..])),
            [byte, rest @ ..] => value.first() == Some(byte) && slowly(rest, &value[1..]),
        }
    }

    #[test]
    fn it_matches_what_trying_every_split_finds() {
        let mut state = 7_u64;
        let mut word = |letters: &[u8], longest: u64| {
            let mut next = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from((state >> 33) % below).unwrap()
            };
            let length = next(longest + 1);
            let bytes = (0..length).map(|_| letters[next(letters.len() as u64)]).collect();
            String::from_utf8(bytes).unwrap()
        };
        for _ in 0..100_000 {
            let (pattern, value) = (word(b"ab**", 7), word(b"ab", 9));
            let Some(wildcard) = Wildcard::new(&pattern) else { continue };
            assert_eq!(wildcard.matches(&value), slowly(pattern.as_bytes(), value.as_bytes()), "{pattern} and {value}");
        }
    }
}
