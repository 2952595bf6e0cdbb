//! `SCAN` of one node's keys, in small steps.

use redis::{Cmd, Value, cmd};

/// The cursor of a scan over the keys that match a pattern. The caller sends the commands.
#[derive(Debug)]
pub struct Scan {
    pattern: Vec<u8>,
    /// `None` at the end.
    cursor: Option<u64>,
}

impl Scan {
    /// A scan that has not begun.
    pub fn new(pattern: Vec<u8>) -> Self {
        Self { pattern, cursor: Some(0) }
    }

    /// The command for the next step; `None` at the end.
    pub fn step(&self) -> Option<Cmd> {
        let mut scan = cmd("SCAN");
        scan.arg(self.cursor?).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(KEYS_PER_STEP);
        Some(scan)
    }

    /// Reads the reply to a step. Keys may occur twice, as `SCAN` allows; a malformed reply ends the scan.
    pub fn read(&mut self, answer: &Value) -> Vec<Vec<u8>> {
        self.cursor = None;
        let Value::Array(parts) = answer else { return Vec::new() };
        let [Value::BulkString(cursor), Value::Array(names)] = parts.as_slice() else { return Vec::new() };
        let cursor = std::str::from_utf8(cursor).ok().and_then(|digits| digits.parse().ok());
        self.cursor = cursor.filter(|cursor| *cursor != 0);
        let name = |name: &Value| match name {
            Value::BulkString(name) => Some(name.clone()),
            _ => None,
        };
        names.iter().filter_map(name).collect()
    }
}

/// The pattern of all keys that begin with this text; characters with a meaning in patterns are escaped.
pub fn beginning_with(text: &str) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len() + 1);
    for byte in text.bytes() {
        if b"*?[\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// Keys per step: a fraction of a millisecond for the server.
pub const KEYS_PER_STEP: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_prefix_are_escaped() {
        assert_eq!(beginning_with("ratekeeper:1:"), b"ratekeeper:1:*");
        assert_eq!(beginning_with("a*[b]?\\"), b"a\\*\\[b]\\?\\\\*");
    }

    #[test]
    fn a_scan_ends_at_cursor_0_and_at_a_malformed_reply() {
        let answer = |cursor: &str| {
            let names = vec![Value::BulkString(b"k".to_vec())];
            Value::Array(vec![Value::BulkString(cursor.into()), Value::Array(names)])
        };
        let mut scan = Scan::new(b"k*".to_vec());
        assert_eq!(scan.read(&answer("17")), [b"k"]);
        assert!(scan.step().is_some());
        assert_eq!(scan.read(&answer("0")), [b"k"]);
        assert!(scan.step().is_none());

        let mut scan = Scan::new(b"k*".to_vec());
        assert!(scan.read(&Value::Nil).is_empty());
        assert!(scan.step().is_none());
    }
}
