//! Structured fields (RFC 9651): strings and list separators.

use std::fmt::Write;

/// A name as a String item. Strings are limited to printable ASCII, so a name with other characters is percent-encoded.
pub(super) fn quoted(name: &str) -> String {
    let encode = !name.bytes().all(is_printable);
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            // A percent sign is encoded only in names that have encoded characters.
            _ if is_printable(byte) && !(encode && byte == b'%') => quoted.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(quoted, "%{byte:02X}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Appends a comma unless the list is empty.
pub(super) fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push_str(", ");
    }
}

fn is_printable(byte: u8) -> bool {
    (0x20..=0x7e).contains(&byte)
}

#[cfg(test)]
mod tests {
    use sfv::{BareItem, Item, Parser};

    use super::*;

    fn round_trip(name: &str) -> String {
        let item: Item = Parser::new(&quoted(name)).parse().unwrap();
        match item.bare_item {
            BareItem::String(text) => text.as_str().to_owned(),
            other => panic!("expected a string, found {other:?}"),
        }
    }

    #[test]
    fn printable_names_survive_a_round_trip() {
        for name in ["burst", "per user", r#"the "best""#, r"back\slash", "50%", "a;b,c=d", "~!@#$^&*()"] {
            assert_eq!(round_trip(name), name);
        }
    }

    #[test]
    fn other_characters_are_percent_encoded() {
        assert_eq!(round_trip("täglich 5%"), "t%C3%A4glich 5%25");
        assert_eq!(round_trip("\u{7f}"), "%7F");
    }
}
