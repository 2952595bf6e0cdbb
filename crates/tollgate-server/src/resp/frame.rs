//! Bytes in, words out: one command as a client sends it.
//!
//! Clients send arrays of bulk strings; people with a terminal send lines. Nothing else is a command:
//!
//! ```text
//!   *2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n        an array: 2 words, of 4 and of 2 bytes
//!   ECHO hi\r\n                             the same, inline
//! ```
//!
//! The reader looks at a buffer that may end anywhere. It copies nothing (words are places in the buffer) and believes
//! no length: what a client announces is compared with the bounds, never allocated. A frame that is not complete yet is
//! looked at again from its start when more has come, which is cheap, because bulk strings are skipped by their length.
//! What breaks the rules cannot be followed by anything that makes sense, so the connection ends there.

use std::{fmt, ops::Range};

/// The words of one command, as places in the buffer it was read from. Meant to be used again and again.
#[derive(Clone, Debug, Default)]
pub struct Words {
    places: Vec<Range<usize>>,
}

impl Words {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// One of them, in the buffer they were read from; empty if there is none.
    #[must_use]
    pub fn of<'a>(&self, frame: &'a [u8], index: usize) -> &'a [u8] {
        self.places.get(index).and_then(|place| frame.get(place.clone())).unwrap_or_default()
    }
}

/// A command among its words, for those who answer it.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    frame: &'a [u8],
    words: &'a Words,
}

impl<'a> Command<'a> {
    /// The words that were read from this frame.
    #[must_use]
    pub fn new(frame: &'a [u8], words: &'a Words) -> Self {
        Self { frame, words }
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        self.words.of(self.frame, 0)
    }

    /// How many arguments follow the name.
    #[must_use]
    pub fn arguments(&self) -> usize {
        self.words.count().saturating_sub(1)
    }

    /// An argument; the first is 0.
    #[must_use]
    pub fn argument(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.arguments()).then(|| self.words.of(self.frame, index + 1))
    }
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Malformed {
    /// A count or length that is no number, or not ended by CR LF.
    NotANumber,
    /// More words than any command has.
    TooManyWords,
    /// A word was announced longer than a frame may be.
    TooLong,
    /// All words together are longer than a frame may be.
    FrameTooLong,
    /// Something else than a bulk string among the words.
    NotABulkString(u8),
    /// A bulk string goes on after its announced length.
    NoLineEnd,
    /// An inline command without an end.
    LineTooLong,
    /// An inline command in which a quotation does not end, or is followed by more, or needs unescaping.
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

/// Reads the command at the start of the buffer and says how many bytes it took. `None` if it is not all there yet. A
/// frame without words (an empty line, an empty array) is nobody's command, and wants no answer.
pub fn read(buffer: &[u8], words: &mut Words) -> Result<Option<usize>, Malformed> {
    words.places.clear();
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
        // So that a frame that will be too long is refused before it has all arrived.
        if end > MAX_FRAME_BYTES {
            return Err(Malformed::FrameTooLong);
        }
        match buffer.get(end..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Ok(None),
            _ => return Err(Malformed::NoLineEnd),
        }
        words.places.push(start..end);
        at = end + 2;
    }
    Ok(Some(at))
}

/// A number that ends in CR LF, and where the next thing begins.
#[inline]
fn read_number(buffer: &[u8], from: usize) -> Result<Option<(i64, usize)>, Malformed> {
    let digits_from = from + usize::from(buffer.get(from) == Some(&b'-'));
    let (mut number, mut at) = (0_i64, digits_from);
    loop {
        match buffer.get(at) {
            // Numbers of more digits are above every bound there is.
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
        if words.places.len() as i64 >= MAX_WORDS {
            return Err(Malformed::TooManyWords);
        }
        words.places.push(word);
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

/// The longest command, with all that is around its words.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;
/// The most words in one command, its name included.
pub const MAX_WORDS: i64 = 64;
/// The longest line. Lines are typed, not computed; and one that comes byte by byte is searched again each time.
pub const MAX_LINE_BYTES: usize = 8 * 1024;

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
