//! JSON reader: validates with `serde_json`, then parses the text as YAML, a superset, for the locations.
//!
//! Two differences are converted before. Tabs become spaces: JSON allows them as white space only, never unescaped in
//! strings. An escaped surrogate pair, which YAML does not have, becomes the character itself.

use serde::de::IgnoredAny;

use super::{SyntaxError, yaml};
use crate::{location::Location, tree::TreeNode};

pub(super) fn read(text: &str) -> Result<Option<TreeNode>, SyntaxError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let location = Location { line: error.line().max(1), column: error.column().max(1) };
        let message = error.to_string();
        // The problem has the location, so the message omits it.
        let message = message.split(" at line ").next().unwrap_or_default();
        SyntaxError::new(location, format!("not valid JSON: {message}"))
    })?;
    yaml::read(&in_yaml(text))
}

fn in_yaml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\t', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if rest.starts_with('\t') {
            out.push(' ');
            1
        } else if let Some(letter) = rest.get(..12).and_then(surrogate_pair) {
            out.push(letter);
            12
        } else {
            // Copies a backslash together with the next character, which may be a backslash, too.
            let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..length]);
            length
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

fn surrogate_pair(escapes: &str) -> Option<char> {
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok();
    let units = [unit(escapes.get(..6)?)?, unit(escapes.get(6..)?)?];
    if !(0xD800..0xDC00).contains(&units[0]) {
        return None;
    }
    char::decode_utf16(units).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_with_places() {
        let tree = read("{\n\t\"domain\": \"a\\ud83d\\ude00\\\\\",\n\t\"n\": 1\n}").unwrap().unwrap();
        assert_eq!(tree.get("domain").unwrap().quoted(), "\"a😀\\\\\"");
        assert_eq!(tree.get("n").unwrap().location, Location { line: 3, column: 7 });
    }

    #[test]
    fn what_only_yaml_allows_is_refused() {
        let trouble = read("{\n \"a\": 1, # no\n}").unwrap_err();
        assert_eq!(trouble.location.line, 2);
        assert!(read("domain: api").is_err());
        assert!(read(" \n").unwrap().is_none());
    }
}
