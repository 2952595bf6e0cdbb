//! RESP command parser: one command from a byte buffer, as a list of words.
//!
//! Client libraries send arrays of bulk strings; terminals send inline commands. Nothing else is accepted:
//!
//! ```text
//!   *2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n        an array: 2 words, of 4 and of 2 bytes
//!   ECHO hi\r\n                             the same, inline
//! ```
//!
//! The buffer may end anywhere. Words are ranges of the buffer, so nothing is copied. An announced length is checked
//! against the bounds and never allocated. An incomplete frame is parsed again from its start when more bytes arrive;
//! this is cheap, because bulk strings are skipped by length. After a protocol error the stream cannot be
//! resynchronised, so the connection is closed.
//!
//! Bounds: [`MAX_FRAME_BYTES`], [`MAX_WORDS`], [`MAX_LINE_BYTES`].

use std::{fmt, ops::Range};

/// The words of one command, as ranges of the buffer it was parsed from. Reusable, to avoid allocations.
#[derive(Clone, Debug, Default)]
pub struct Words {
    ranges: Vec<Range<usize>>,
}

impl Words {
    /// Number of words.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The word at this index, taken from the buffer that was parsed; empty if there is none.
    #[must_use]
    pub fn of<'a>(&self, frame: &'a [u8], index: usize) -> &'a [u8] {
        self.ranges.get(index).and_then(|range| frame.get(range.clone())).unwrap_or_default()
    }
}

/// One command: its buffer and its words.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    frame: &'a [u8],
    words: &'a Words,
}

impl<'a> Command<'a> {
    /// A command of the words that were parsed from this frame.
    #[must_use]
    pub fn new(frame: &'a [u8], words: &'a Words) -> Self {
        Self { frame, words }
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        self.words.of(self.frame, 0)
    }

    /// Number of arguments after the name.
    #[must_use]
    pub fn arguments(&self) -> usize {
        self.words.count().saturating_sub(1)
    }

    /// The argument at this index; the first is 0.
    #[must_use]
    pub fn argument(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.arguments()).then(|| self.words.of(self.frame, index + 1))
    }
}

/// A protocol error, after which the connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Malformed {
    /// A count or length is not a number or does not end with CR LF.
    NotANumber,
    /// More than [`MAX_WORDS`] words.
    TooManyWords,
    /// The announced length of a bulk string is negative or above [`MAX_FRAME_BYTES`].
    TooLong,
    /// The frame is longer than [`MAX_FRAME_BYTES`].
    FrameTooLong,
    /// An element of the array is not a bulk string; the byte found instead of `$`.
    NotABulkString(u8),
    /// A bulk string is not followed by CR LF.
    NoLineEnd,
    /// An inline command has no line end within [`MAX_LINE_BYTES`].
    LineTooLong,
    /// A quotation in an inline command is not closed, contains a backslash, or is followed by other than a blank.
    Quotes,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => f.write_str("a count or length is not a number that ends in CR LF"),
            Self::TooManyWords => write!(f, "a command has {MAX_WORDS} words at most"),
            Self::TooLong => write!(f, "a bulk string is 0 to {MAX_FRAME_BYTES} bytes long"),
            Self::FrameTooLong => write!(f, "a command is {MAX_FRAME_BYTES} bytes long at most"),
            Self::NotABulkString(found) => write!(f, "expected '$', got '{}'", found.escape_ascii()),
            Self::NoLineEnd => f.write_str("a bulk string is not followed by CR LF"),
            Self::LineTooLong => write!(f, "an inline command is {MAX_LINE_BYTES} bytes long at most"),
            Self::Quotes => f.write_str("unbalanced quotes or a backslash in an inline command; send an array instead"),
        }
    }
}

/// Parses the command at the start of the buffer and returns its length in bytes; `None` if it is incomplete. A frame
/// without words (an empty line, an empty array) is not a command and gets no reply.
pub fn read(buffer: &[u8], words: &mut Words) -> Result<Option<usize>, Malformed> {
    words.ranges.clear();
    let read = match buffer.first() {
        None => return Ok(None),
        Some(b'*') => read_array(buffer, words)?,
        Some(_) => read_line(buffer, words)?,
    };
    match read {
        Some(taken) if taken > MAX_FRAME_BYTES => Err(Malformed::FrameTooLong),
        None if buffer.len() >= MAX_FRAME_BYTES => Err(Malformed::FrameTooLong),
        read => Ok(read),
    }
}

fn read_array(buffer: &[u8], words: &mut Words) -> Result<Option<usize>, Malformed> {
    let Some((count, mut at)) = read_number(buffer, 1)? else { return Ok(None) };
    if count > MAX_WORDS {
        return Err(Malformed::TooManyWords);
    }
    for _ in 0..count.max(0) {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&found) => return Err(Malformed::NotABulkString(found)),
        }
        let Some((length, start)) = read_number(buffer, at + 1)? else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|&length| length <= MAX_FRAME_BYTES);
        let end = start + length.ok_or(Malformed::TooLong)?;
        // Refuses an oversized frame before all of it has arrived.
        if end > MAX_FRAME_BYTES {
            return Err(Malformed::FrameTooLong);
        }
        match buffer.get(end..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Ok(None),
            _ => return Err(Malformed::NoLineEnd),
        }
        words.ranges.push(start..end);
        at = end + 2;
    }
    Ok(Some(at))
}

/// Parses a number that ends in CR LF. Returns it with the offset of the next byte.
#[inline]
fn read_number(buffer: &[u8], from: usize) -> Result<Option<(i64, usize)>, Malformed> {
    let digits_from = from + usize::from(buffer.get(from) == Some(&b'-'));
    let (mut number, mut at) = (0_i64, digits_from);
    loop {
        match buffer.get(at) {
            // More than ten digits exceed every bound.
            Some(digit @ b'0'..=b'9') if at - digits_from < 10 => number = number * 10 + i64::from(digit - b'0'),
            Some(b'\r') if at > digits_from => break,
            Some(_) => return Err(Malformed::NotANumber),
            None => return Ok(None),
        }
        at += 1;
    }
    let number = if digits_from > from { -number } else { number };
    match buffer.get(at + 1) {
        Some(b'\n') => Ok(Some((number, at + 2))),
        Some(_) => Err(Malformed::NotANumber),
        None => Ok(None),
    }
}

fn read_line(buffer: &[u8], words: &mut Words) -> Result<Option<usize>, Malformed> {
    let Some(end) = buffer.iter().take(MAX_LINE_BYTES).position(|&byte| byte == b'\n') else {
        return if buffer.len() >= MAX_LINE_BYTES { Err(Malformed::LineTooLong) } else { Ok(None) };
    };
    let line = &buffer[..end];
    let mut at = 0;
    while let Some(start) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()).map(|skip| at + skip) {
        let (word, next) = match line[start] {
            quote @ (b'"' | b'\'') => read_quoted(line, start + 1, quote)?,
            _ => {
                let end = line[start..].iter().position(u8::is_ascii_whitespace).map_or(end, |length| start + length);
                (start..end, end)
            }
        };
        if words.ranges.len() as i64 >= MAX_WORDS {
            return Err(Malformed::TooManyWords);
        }
        words.ranges.push(word);
        at = next;
    }
    Ok(Some(end + 1))
}

fn read_quoted(line: &[u8], start: usize, quote: u8) -> Result<(Range<usize>, usize), Malformed> {
    let length = line[start..].iter().position(|&byte| byte == quote).ok_or(Malformed::Quotes)?;
    let end = start + length;
    let followed = line.get(end + 1).is_some_and(|byte| !byte.is_ascii_whitespace());
    if followed || line[start..end].contains(&b'\\') { Err(Malformed::Quotes) } else { Ok((start..end, end + 1)) }
}

/// Maximum length of a command, including its framing.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;
/// Maximum number of words of a command, including its name.
pub const MAX_WORDS: i64 = 64;
/// Maximum length of an inline command. It is small because an incomplete line is searched again after each read.
pub const MAX_LINE_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests;
