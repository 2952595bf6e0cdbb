//! Answers out: values as RESP 2 or RESP 3 bytes, one after another into the connection's one output buffer.
//!
//! The two differ for what the first has no type for. A map is an array of keys and values there, nothing is a bulk
//! string of length −1, and text that is meant for people is plain bulk.

/// Which of the two a client has asked for; 2 until it says `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// RESP 2.
    #[default]
    Two,
    /// RESP 3.
    Three,
}

impl Protocol {
    /// As clients name it.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// What has been answered and not been sent yet.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    /// How the client wants it.
    pub protocol: Protocol,
}

impl Replies {
    /// None so far, for a client that speaks this.
    #[must_use]
    pub fn speaking(protocol: Protocol) -> Self {
        Self { bytes: Vec::new(), protocol }
    }

    /// The bytes to send.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// They were sent. A buffer that a rare long answer has stretched is not kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }

    /// An answer that was written elsewhere.
    pub fn append(&mut self, answer: &[u8]) {
        self.bytes.extend_from_slice(answer);
    }

    /// The bytes, to be sent by somebody else.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// `+OK` and its kind; one line.
    pub fn status(&mut self, line: &str) {
        self.bytes.push(b'+');
        self.line(line);
    }

    /// An error; its first word is the kind. What a client has sent may be part of it, so that only what fits a line is kept.
    pub fn error(&mut self, line: &str) {
        self.bytes.push(b'-');
        self.line(line);
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        self.decimal(number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Any bytes.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.bytes.push(b'$');
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Text for people.
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

    /// Nothing.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.protocol == Protocol::Two { b"$-1\r\n" } else { b"_\r\n" });
    }

    /// So many values follow.
    #[inline]
    pub fn array(&mut self, length: usize) {
        self.bytes.push(b'*');
        self.length(length);
    }

    /// So many pairs follow.
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

    /// Digits without detours: every answer is made of them.
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

/// What an output buffer may hold on to between batches: a few hundred answers.
const KEPT_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, say: impl FnOnce(&mut Replies)) -> String {
        let mut replies = Replies { protocol, ..Replies::default() };
        say(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn values_are_written_as_the_protocol_has_them() {
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
        assert_eq!(said(Protocol::Two, all), format!("{start}*2\r\n$1\r\nt\r\n$-1\r\n"));
        assert_eq!(said(Protocol::Three, all), format!("{start}%1\r\n=5\r\ntxt:t\r\n_\r\n"));
    }

    #[test]
    fn every_number_is_written_in_full() {
        for number in [0, 1, -1, 9, 10, -10, 1_000_000_007, i64::MAX, i64::MIN] {
            assert_eq!(said(Protocol::Two, |replies| replies.integer(number)), format!(":{number}\r\n"));
        }
    }

    /// A client must not be able to write answers of its own into the stream.
    #[test]
    fn an_error_stays_on_its_line() {
        assert_eq!(said(Protocol::Two, |replies| replies.error("ERR a\r\n+OK\nb")), "-ERR a  +OK b\r\n");
    }

    #[test]
    fn a_long_answer_is_not_remembered_by_its_memory() {
        let mut replies = Replies::default();
        replies.bulk(vec![b'x'; 1 << 20]);
        replies.clear();
        assert!(replies.bytes.is_empty() && replies.bytes.capacity() <= KEPT_BYTES);
    }
}
