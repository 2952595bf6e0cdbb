//! The few shapes of structured fields (RFC 9651) we write.

use std::fmt::Write;

/// A name as a String item. Those hold printable ASCII only, so a name with other letters is percent-encoded.
pub(super) fn quoted(name: &str) -> String {
    let encode = !name.bytes().all(is_printable);
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            // A percent sign stays itself unless it could be taken for one of ours.
            _ if is_printable(byte) && !(encode && byte == b'%') => quoted.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(quoted, "%{byte:02X}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Puts a comma before all but the first member of a list.
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

    fn read_back(name: &str) -> String {
        let item: Item = Parser::new(&quoted(name)).parse().unwrap();
        match item.bare_item {
            BareItem::String(text) => text.as_str().to_owned(),
            other => panic!("expected a string, found {other:?}"),
        }
    }

    #[test]
    fn any_printable_name_is_read_back_as_it_was() {
        for name in ["burst", "per user", r#"the "best""#, r"back\slash", "50%", "a;b,c=d", "~!@#$^&*()"] {
            assert_eq!(read_back(name), name);
        }
    }

    #[test]
    fn other_letters_are_percent_encoded() {
        assert_eq!(read_back("täglich 5%"), "t%C3%A4glich 5%25");
        assert_eq!(read_back("\u{7f}"), "%7F");
    }
}
