//! What strangers write, as text.
//!
//! Header values may hold any bytes. Those that are no UTF-8 are spelt out (`\xff`), so that they are a value like any
//! other and different ones stay apart. Refusing them would let a stranger choose between an answer and an error.

use std::{borrow::Cow, fmt::Write};

/// Bytes as text: as they are, without a copy, where they are UTF-8.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(spelt_out(bytes)),
    }
}

#[cold]
fn spelt_out(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_borrowed_and_other_bytes_are_spelt_out() {
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
