//! Bare line feed scanner: finds the first HTTP/1 request whose header block has a line that ends without CR.
//!
//! hyper's parser accepts LF for CRLF, as RFC 9112 (section 2.2) permits. Proxies disagree on where such a header block
//! ends, which enables request smuggling, so the server refuses it. The scanner follows the message framing
//! (Content-Length and chunked, by hyper's rules) to distinguish header blocks from bodies. It never changes a byte.
//! Where the framing is malformed it stops, and hyper refuses the request.

/// The position of a connection in its messages.
#[derive(Debug)]
pub(super) struct BareLfScanner {
    part: MessagePart,
    /// Header blocks that have ended.
    blocks: u64,
    /// The start of the current line.
    line: [u8; LINE_BYTES],
    /// Length of the current line, which may exceed what is stored.
    line_len: usize,
    ends_with_cr: bool,
    /// Whether the current header block has a bare LF.
    has_bare_lf: bool,
    content_length: u64,
    is_chunked: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum MessagePart {
    /// Before the request line; empty lines are allowed.
    Start,
    Fields,
    /// Bytes left of a body; then the next request.
    Body(u64),
    ChunkSize,
    /// Bytes left of a chunk with its CRLF; then the next chunk.
    Chunk(u64),
    Trailers,
    /// The framing is malformed; the rest is not scanned.
    Unknown,
}

impl BareLfScanner {
    pub(super) fn new() -> Self {
        Self {
            part: MessagePart::Start,
            blocks: 0,
            line: [0; LINE_BYTES],
            line_len: 0,
            ends_with_cr: false,
            has_bare_lf: false,
            content_length: 0,
            is_chunked: false,
        }
    }

    /// Scans the bytes received. If a header block with a bare LF ends within them: its number, counted from 0. Nothing
    /// is scanned afterwards.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while !bytes.is_empty() {
            match &mut self.part {
                MessagePart::Unknown => return None,
                MessagePart::Body(left) | MessagePart::Chunk(left) => {
                    let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= passed as u64;
                    bytes = &bytes[passed..];
                    match self.part {
                        MessagePart::Body(0) => self.part = MessagePart::Start,
                        MessagePart::Chunk(0) => self.part = MessagePart::ChunkSize,
                        _ => {}
                    }
                }
                MessagePart::Start | MessagePart::Fields | MessagePart::ChunkSize | MessagePart::Trailers => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        self.store(bytes);
                        return None;
                    };
                    self.store(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    if let Some(number) = self.end_line() {
                        self.part = MessagePart::Unknown;
                        return Some(number);
                    }
                    (self.line_len, self.ends_with_cr) = (0, false);
                }
            }
        }
        None
    }

    /// Appends to the current line, as far as there is space.
    fn store(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.ends_with_cr = *last == b'\r';
        }
        if let Some(free) = self.line.get_mut(self.line_len..) {
            let stored = free.len().min(bytes.len());
            free[..stored].copy_from_slice(&bytes[..stored]);
        }
        self.line_len += bytes.len();
    }

    fn end_line(&mut self) -> Option<u64> {
        let is_empty = self.line_len == usize::from(self.ends_with_cr);
        match self.part {
            MessagePart::Start | MessagePart::Fields => self.has_bare_lf |= !self.ends_with_cr,
            MessagePart::ChunkSize => {
                self.part = match chunk_size(self.stored()) {
                    Some(0) => MessagePart::Trailers,
                    Some(size) => MessagePart::Chunk(size.saturating_add(2)),
                    None => MessagePart::Unknown,
                };
                return None;
            }
            MessagePart::Trailers if is_empty => self.part = MessagePart::Start,
            _ => {}
        }
        match self.part {
            MessagePart::Start if !is_empty => self.part = MessagePart::Fields,
            MessagePart::Fields if is_empty => return self.end_block(),
            MessagePart::Fields => self.read_field(),
            _ => {}
        }
        None
    }

    /// Notes the fields that determine the framing of the body.
    fn read_field(&mut self) {
        let line = self.stored();
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            match std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()) {
                Some(length) if self.line_len <= LINE_BYTES => self.content_length = length,
                _ => self.part = MessagePart::Unknown,
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
            match last.eq_ignore_ascii_case(b"chunked") && self.line_len <= LINE_BYTES {
                true => self.is_chunked = true,
                false => self.part = MessagePart::Unknown,
            }
        }
    }

    fn end_block(&mut self) -> Option<u64> {
        let number = self.blocks;
        self.blocks += 1;
        self.part = match (std::mem::take(&mut self.is_chunked), std::mem::take(&mut self.content_length)) {
            (true, _) => MessagePart::ChunkSize,
            (false, 0) => MessagePart::Start,
            (false, length) => MessagePart::Body(length),
        };
        std::mem::take(&mut self.has_bare_lf).then_some(number)
    }

    /// The stored part of the current line.
    fn stored(&self) -> &[u8] {
        &self.line[..self.line_len.min(LINE_BYTES)]
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    u64::from_str_radix(std::str::from_utf8(&line[..end]).ok()?, 16).ok()
}

/// Longer than the fields that determine the framing, and than the size of a chunk.
const LINE_BYTES: usize = 128;

#[cfg(test)]
mod tests;
