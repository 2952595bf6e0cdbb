//! Wildcards in the value of a descriptor: `/api/*/action`, where each `*` stands for any text, the empty one included.
//!
//! The pattern is cut at its stars once. What is before the first and after the last must be at the ends of a value, and
//! the parts between them are looked for from left to right, each behind the one before. Taking the first place of each
//! leaves the most room for the rest, so nothing is tried twice.
//!
//! Bound: one pass over the value, whatever the pattern.

/// A pattern with at least one `*`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Wildcard {
    written: Box<str>,
    first: Box<str>,
    between: Box<[Box<str>]>,
    last: Box<str>,
}

impl Wildcard {
    /// The pattern of a value; none if it has no `*`.
    pub(super) fn of(value: &str) -> Option<Self> {
        let (first, rest) = value.split_once('*')?;
        let (between, last) = rest.rsplit_once('*').map_or((None, rest), |(between, last)| (Some(between), last));
        let parts = between.into_iter().flat_map(|parts| parts.split('*')).filter(|part| !part.is_empty());
        let between = parts.map(Into::into).collect();
        Some(Self { written: value.into(), first: first.into(), between, last: last.into() })
    }

    /// Whether a value fits.
    pub fn fits(&self, value: &str) -> bool {
        let rest = value.strip_prefix(&*self.first).and_then(|rest| rest.strip_suffix(&*self.last));
        let left = self.between.iter().try_fold(rest, |rest, part| {
            let rest = rest?;
            rest.find(&**part).map(|place| Some(&rest[place + part.len()..]))
        });
        left.flatten().is_some()
    }

    /// The pattern as it was written.
    pub fn written(&self) -> &str {
        &self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, value: &str) -> bool {
        Wildcard::of(pattern).unwrap().fits(value)
    }

    #[test]
    fn a_star_stands_for_any_text_at_any_place() {
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
            assert!(fitting.iter().all(|value| fits(pattern, value)), "{pattern} fits {fitting:?}");
            assert!(!others.iter().any(|value| fits(pattern, value)), "{pattern} fits none of {others:?}");
        }
        assert_eq!(Wildcard::of("plain"), None);
    }

    /// The obvious way, which may try every split.
    fn slowly(pattern: &[u8], value: &[u8]) -> bool {
        match pattern {
            [] => value.is_empty(),
            [b'*', rest @ ..] => (0..=value.len()).any(|skip| slowly(rest, &value[skip..])),
            [byte, rest @ ..] => value.first() == Some(byte) && slowly(rest, &value[1..]),
        }
    }

    #[test]
    fn it_fits_what_trying_every_split_finds() {
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
            let Some(wildcard) = Wildcard::of(&pattern) else { continue };
            assert_eq!(wildcard.fits(&value), slowly(pattern.as_bytes(), value.as_bytes()), "{pattern} and {value}");
        }
    }
}
