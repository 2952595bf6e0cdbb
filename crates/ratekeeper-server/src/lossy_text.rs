//! Untrusted text: header values as text, and escapes for display.
//!
//! Header values may hold any bytes. Bytes that are not UTF-8 are written as escapes (`\xff`), so that the value
//! selects a key like any other, and different invalid bytes remain different. An error instead would let a client
//! avoid the decision.
//!
//! Terminals and log viewers interpret invisible characters: escape sequences move the cursor, bidirectional controls
//! reorder what follows, zero-width characters make two names look alike. [`Escaped`] writes those as `\u{202e}`.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

/// Displays a text with escapes for control and format characters, line breaks included.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl Escaped<'_> {
    /// The first `most` characters, with an ellipsis if the text is longer.
    pub fn first(self, most: usize) -> String {
        match self.0.char_indices().nth(most) {
            None => self.to_string(),
            Some((end, _)) => format!("{}…", Escaped(&self.0[..end])),
        }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((start, hidden)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
            write!(f, "{}{}", &rest[..start], hidden.escape_unicode())?;
            rest = &rest[start + hidden.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Whether a character affects the display without a visible shape: controls (Cc), format characters (Cf, which
/// includes bidirectional controls and zero-width characters), line and paragraph separators, Hangul fillers.
#[inline]
pub fn is_hidden(letter: char) -> bool {
    letter.is_control() || (letter >= HIDDEN[0].0 && HIDDEN.iter().any(|(from, to)| (*from..=*to).contains(&letter)))
}

/// Bytes as text: borrowed if they are UTF-8, else a copy with escapes.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(escaped_bytes(bytes)),
    }
}

#[cold]
fn escaped_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing into a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// General category Cf of Unicode 16.0 (UnicodeData.txt), and U+2028, U+2029, U+115F, U+1160, U+3164, U+FFA0, in order.
const HIDDEN: [(char, char); 24] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Each hidden character is escaped in ASCII, each other one is unchanged. The standard library's table of
    /// printable characters is the reference: apart from the fillers, no escaped character is printable.
    #[test]
    fn every_hidden_character_is_escaped_and_no_other() {
        let fillers = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];
        let mut formats = 0;
        for letter in '\0'..=char::MAX {
            let text = letter.to_string();
            let shown = Escaped(&text).to_string();
            if is_hidden(letter) {
                assert_eq!(shown, format!("\\u{{{:x}}}", u32::from(letter)));
                assert!(shown.is_ascii());
                let is_printable = letter.escape_debug().count() == 1;
                assert!(!is_printable || fillers.contains(&letter), "U+{:04X}", u32::from(letter));
                formats += usize::from(!letter.is_control() && !fillers.contains(&letter));
            } else {
                assert_eq!(shown, text);
            }
        }
        assert_eq!(formats, 170 + 2, "all of category Cf, and the two separators");
        for letter in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{200f}', '\u{61c}', '\u{200b}'] {
            assert!(is_hidden(letter), "U+{:04X}", u32::from(letter));
        }
        assert!(HIDDEN.windows(2).all(|two| two[0].1 < two[1].0), "in order");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(Escaped("aü\u{202e}€b").to_string(), "aü\\u{202e}€b");
        assert_eq!(Escaped("aü\u{202e}€b").first(3).to_string(), "aü\\u{202e}…");
        assert_eq!(Escaped("aü").first(2).to_string(), "aü");
        assert_eq!(Escaped("").first(0).to_string(), "");
    }

    #[test]
    fn text_is_borrowed_and_other_bytes_are_escaped() {
        for text in ["", "ann", "ü€😀", "\\xff"] {
            assert!(matches!(of_bytes(text.as_bytes()), Cow::Borrowed(same) if same == text), "{text}");
        }
        for (bytes, text) in [
            (b"\xff\xfe".as_slice(), r"\xff\xfe"),
            (b"ann\xc3", r"ann\xc3"),
            (b"\xe2\x82ann\xc3\xbc", r"\xe2\x82annü"),
            (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        ] {
            assert_eq!(of_bytes(bytes), text);
        }
    }
}
