//! RESP 2 and RESP 3 encoding of replies, into one output buffer per connection.
//!
//! The versions differ in types that RESP 2 lacks. There, a map is an array of keys and values, null is a bulk string
//! of length −1, and verbatim text is a plain bulk string.

/// Protocol version of a connection: 2 until the client sends `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// RESP 2.
    #[default]
    Two,
    /// RESP 3.
    Three,
}

impl Protocol {
    /// The version number, as in `HELLO`.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Encoded replies that have not been sent yet.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    /// The version that values are encoded in.
    pub protocol: Protocol,
}

impl Replies {
    /// An empty buffer for this version.
    #[must_use]
    pub fn with_protocol(protocol: Protocol) -> Self {
        Self { bytes: Vec::new(), protocol }
    }

    /// The bytes to send.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the buffer after sending. Capacity above 16 KiB is released.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }

    /// Appends an encoded reply.
    pub fn append(&mut self, answer: &[u8]) {
        self.bytes.extend_from_slice(answer);
    }

    /// The bytes to send, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A simple string such as `+OK`. CR and LF are replaced by blanks.
    pub fn status(&mut self, line: &str) {
        self.bytes.push(b'+');
        self.line(line);
    }

    /// An error; its first word is the error code. CR and LF are replaced by blanks, since the line may contain client
    /// input.
    pub fn error(&mut self, line: &str) {
        self.bytes.push(b'-');
        self.line(line);
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        self.decimal(number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.bytes.push(b'$');
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Verbatim text; a bulk string in RESP 2.
    pub fn text(&mut self, text: &str) {
        if self.protocol == Protocol::Two {
            return self.bulk(text);
        }
        self.bytes.push(b'=');
        self.length("txt:".len() + text.len());
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Null.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.protocol == Protocol::Two { b"$-1\r\n" } else { b"_\r\n" });
    }

    /// Header of an array; this many values follow.
    #[inline]
    pub fn array(&mut self, length: usize) {
        self.bytes.push(b'*');
        self.length(length);
    }

    /// Header of a map; this many pairs of key and value follow.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.array(2 * pairs),
            Protocol::Three => {
                self.bytes.push(b'%');
                self.length(pairs);
            }
        }
    }

    fn line(&mut self, line: &str) {
        let clean = line.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte });
        self.bytes.extend(clean);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn length(&mut self, length: usize) {
        self.decimal(i64::try_from(length).unwrap_or(i64::MAX));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Formats directly into the buffer, since every reply contains numbers.
    #[inline]
    fn decimal(&mut self, number: i64) {
        if number < 0 {
            self.bytes.push(b'-');
        }
        let (mut rest, mut digits, mut at) = (number.unsigned_abs(), [0_u8; 20], 20);
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&digits[at..]);
    }
}

/// Capacity that is kept between batches: a few hundred replies.
const KEPT_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(protocol: Protocol, write: impl FnOnce(&mut Replies)) -> String {
        let mut replies = Replies { protocol, ..Replies::default() };
        write(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn values_are_encoded_by_protocol_version() {
        let all = |replies: &mut Replies| {
            replies.array(3);
            replies.status("OK");
            replies.error("ERR no");
            replies.bulk("a\r\nb");
            replies.map(1);
            replies.text("t");
            replies.null();
        };
        let start = "*3\r\n+OK\r\n-ERR no\r\n$4\r\na\r\nb\r\n";
        assert_eq!(encoded(Protocol::Two, all), format!("{start}*2\r\n$1\r\nt\r\n$-1\r\n"));
        assert_eq!(encoded(Protocol::Three, all), format!("{start}%1\r\n=5\r\ntxt:t\r\n_\r\n"));
    }

    #[test]
    fn every_number_is_written_in_full() {
        for number in [0, 1, -1, 9, 10, -10, 1_000_000_007, i64::MAX, i64::MIN] {
            assert_eq!(encoded(Protocol::Two, |replies| replies.integer(number)), format!(":{number}\r\n"));
        }
    }

    /// Client input in an error cannot inject another reply.
    #[test]
    fn an_error_is_one_line() {
        assert_eq!(encoded(Protocol::Two, |replies| replies.error("ERR a\r\n+OK\nb")), "-ERR a  +OK b\r\n");
    }

    #[test]
    fn the_memory_of_a_long_reply_is_released() {
        let mut replies = Replies::default();
        replies.bulk(vec![b'x'; 1 << 20]);
        replies.clear();
        assert!(replies.bytes.is_empty() && replies.bytes.capacity() <= KEPT_BYTES);
    }
}
