//! Boundaries of replies in a RESP 2 or 3 stream, without buffering their contents.

/// Follows a stream of replies.
#[derive(Debug)]
pub(super) struct Frames {
    /// Values until the reply is complete, the current one included.
    values_left: u64,
    /// Bytes left of a bulk string, with its line end.
    bulk_left: u64,
    /// The start of the current line: its type and, if it has one, its number.
    line: Vec<u8>,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { values_left: 1, bulk_left: 0, line: Vec::new() }
    }

    /// How many of these bytes belong to the current reply, and whether they complete it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        while used < bytes.len() {
            if self.bulk_left > 0 {
                let step = usize::try_from(self.bulk_left).unwrap_or(usize::MAX).min(bytes.len() - used);
                used += step;
                self.bulk_left -= step as u64;
                if self.bulk_left > 0 {
                    break;
                }
                self.values_left -= 1;
            } else {
                let byte = bytes[used];
                used += 1;
                if byte != b'\n' {
                    if self.line.len() < LONGEST_HEAD {
                        self.line.push(byte);
                    }
                    continue;
                }
                self.end_line();
            }
            if self.values_left == 0 {
                *self = Self::new();
                return (used, true);
            }
        }
        (used, false)
    }

    /// Handles a complete line: a value, or the header of an aggregate or bulk string.
    fn end_line(&mut self) {
        let (kind, number) = (self.line.first().copied().unwrap_or_default(), self.number());
        self.line.clear();
        self.values_left -= 1;
        match kind {
            b'$' | b'!' | b'=' => {
                if let Some(length) = number {
                    self.values_left += 1;
                    self.bulk_left = length + 2;
                }
            }
            b'*' | b'~' | b'>' => self.values_left += number.unwrap_or(0),
            b'%' => self.values_left += 2 * number.unwrap_or(0),
            // Attributes precede the value they belong to.
            b'|' => self.values_left += 2 * number.unwrap_or(0) + 1,
            _ => {}
        }
    }

    /// The number after the type; `None` for `-1`, a null.
    fn number(&self) -> Option<u64> {
        str::from_utf8(self.line.get(1..)?).ok()?.trim_end().parse().ok()
    }
}

/// A type, twenty digits, and a carriage return; longer lines are truncated.
const LONGEST_HEAD: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&str; 9] = [
        "+OK\r\n",
        "-ERR a message longer than any head of a line\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "$0\r\n\r\n",
        "*2\r\n$3\r\na\r\n\r\n*1\r\n:1\r\n",
        "*0\r\n",
        "%1\r\n+key\r\n*2\r\n_\r\n#t\r\n",
        "|1\r\n+ttl\r\n:3\r\n$2\r\nhi\r\n",
    ];

    /// The boundaries do not depend on the sizes of reads.
    #[test]
    fn the_end_of_every_reply_is_found_in_chunks_of_any_size() {
        let stream = REPLIES.concat();
        for chunk in 1..=stream.len() {
            let (mut frames, mut found, mut reply) = (Frames::new(), Vec::new(), Vec::new());
            for mut bytes in stream.as_bytes().chunks(chunk) {
                while !bytes.is_empty() {
                    let (used, is_whole) = frames.take(bytes);
                    reply.extend_from_slice(&bytes[..used]);
                    bytes = &bytes[used..];
                    if is_whole {
                        found.push(String::from_utf8(std::mem::take(&mut reply)).unwrap());
                    }
                }
            }
            assert_eq!(found, REPLIES, "in chunks of {chunk}");
        }
    }
}
