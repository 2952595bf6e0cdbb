//! Looking through a node's keys in small steps.

use redis::{Cmd, Value, cmd};

/// A walk through the keys of one node that match a pattern. Whoever walks does the asking.
#[derive(Debug)]
pub(crate) struct Scan {
    pattern: Vec<u8>,
    /// Where to go on; nothing at the end.
    cursor: Option<u64>,
}

impl Scan {
    pub(crate) fn new(pattern: Vec<u8>) -> Self {
        Self { pattern, cursor: Some(0) }
    }

    /// The command for the next step; none when all has been seen.
    pub(crate) fn step(&self) -> Option<Cmd> {
        let mut scan = cmd("SCAN");
        scan.arg(self.cursor?).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(KEYS_PER_STEP);
        Some(scan)
    }

    /// Reads the answer to a step. Some keys may be told twice, and an answer that makes no sense ends the walk.
    pub(crate) fn read(&mut self, answer: &Value) -> Vec<Vec<u8>> {
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

/// The pattern of everything that begins with this, whatever is in it.
pub(crate) fn beginning_with(text: &str) -> Vec<u8> {
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

/// A step of so many keys takes the server a fraction of a millisecond.
pub(crate) const KEYS_PER_STEP: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_itself_whatever_is_in_it() {
        assert_eq!(beginning_with("tollgate:1:"), b"tollgate:1:*");
        assert_eq!(beginning_with("a*[b]?\\"), b"a\\*\\[b]\\?\\\\*");
    }

    #[test]
    fn a_walk_ends_where_the_server_says_and_where_it_makes_no_sense() {
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
