//! HTTP/1 head scanner: finds the first request whose head has a line that ends with a bare line feed.
//!
//! hyper's parser takes LF for CRLF, as RFC 9112 (section 2.2) allows. Proxies in front do not all agree on where such a head ends, which is
//! what request smuggling is made of, so the server refuses it. The scanner follows the framing of messages to tell heads from bodies:
//! Content-Length and chunked, by the same rules as hyper. It never changes a byte; where it loses track it stops looking, and hyper, which has
//! the last word on framing, refuses what is malformed.

/// Where in its messages a connection is.
#[derive(Debug)]
pub(super) struct Lines {
    part: Part,
    /// Heads that have ended.
    heads: u64,
    /// The beginning of the line that is being read, and how long the line is.
    line: [u8; LINE_BYTES],
    length: usize,
    /// Whether the byte before this one is a CR.
    after_cr: bool,
    /// Whether the head that is being read has a bare LF.
    is_bare: bool,
    body: u64,
    is_chunked: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// Before the request line; empty lines may come.
    Start,
    Fields,
    /// So many bytes, then another request.
    Body(u64),
    ChunkSize,
    /// So many bytes with the CRLF behind them, then another chunk.
    Chunk(u64),
    Trailers,
    /// The framing is unknown.
    Lost,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            part: Part::Start,
            heads: 0,
            line: [0; LINE_BYTES],
            length: 0,
            after_cr: false,
            is_bare: false,
            body: 0,
            is_chunked: false,
        }
    }

    /// Looks at bytes that have come. If a head has ended among them that has a bare LF: its number, the first being 0. Nothing is looked at
    /// afterwards.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while !bytes.is_empty() {
            match &mut self.part {
                Part::Lost => return None,
                Part::Body(left) | Part::Chunk(left) => {
                    let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= passed as u64;
                    bytes = &bytes[passed..];
                    match self.part {
                        Part::Body(0) => self.part = Part::Start,
                        Part::Chunk(0) => self.part = Part::ChunkSize,
                        _ => {}
                    }
                }
                Part::Start | Part::Fields | Part::ChunkSize | Part::Trailers => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        self.keep(bytes);
                        return None;
                    };
                    self.keep(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    if let Some(bad) = self.line_ends() {
                        self.part = Part::Lost;
                        return Some(bad);
                    }
                    (self.length, self.after_cr) = (0, false);
                }
            }
        }
        None
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.after_cr = *last == b'\r';
        }
        if let Some(room) = self.line.get_mut(self.length..) {
            let kept = room.len().min(bytes.len());
            room[..kept].copy_from_slice(&bytes[..kept]);
        }
        self.length += bytes.len();
    }

    fn line_ends(&mut self) -> Option<u64> {
        let is_empty = self.length == usize::from(self.after_cr);
        match self.part {
            Part::Start | Part::Fields => self.is_bare |= !self.after_cr,
            Part::ChunkSize => {
                self.part = match chunk_size(self.kept()) {
                    Some(0) => Part::Trailers,
                    Some(size) => Part::Chunk(size.saturating_add(2)),
                    None => Part::Lost,
                };
                return None;
            }
            Part::Trailers if is_empty => self.part = Part::Start,
            _ => {}
        }
        match self.part {
            Part::Start if !is_empty => self.part = Part::Fields,
            Part::Fields if is_empty => return self.head_ends(),
            Part::Fields => self.field(),
            _ => {}
        }
        None
    }

    fn field(&mut self) {
        let line = self.kept();
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            match std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()) {
                Some(length) if self.length <= LINE_BYTES => self.body = length,
                _ => self.part = Part::Lost,
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
            match last.eq_ignore_ascii_case(b"chunked") && self.length <= LINE_BYTES {
                true => self.is_chunked = true,
                false => self.part = Part::Lost,
            }
        }
    }

    fn head_ends(&mut self) -> Option<u64> {
        let head = self.heads;
        self.heads += 1;
        self.part = match (std::mem::take(&mut self.is_chunked), std::mem::take(&mut self.body)) {
            (true, _) => Part::ChunkSize,
            (false, 0) => Part::Start,
            (false, length) => Part::Body(length),
        };
        std::mem::take(&mut self.is_bare).then_some(head)
    }

    /// The line as far as it is kept.
    fn kept(&self) -> &[u8] {
        &self.line[..self.length.min(LINE_BYTES)]
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    u64::from_str_radix(std::str::from_utf8(&line[..end]).ok()?, 16).ok()
}

/// The fields that say how long a body is are shorter, and so is the size of a chunk.
const LINE_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found, however the bytes are cut.
    #[track_caller]
    fn found(bytes: &[u8]) -> Option<u64> {
        let whole = Lines::new().scan(bytes);
        for cut in [1, 2, 3, 5, 7, 11, 100] {
            let mut lines = Lines::new();
            let cut_up = bytes.chunks(cut).find_map(|piece| lines.scan(piece));
            assert_eq!(cut_up, whole, "{} in pieces of {cut}", bytes.escape_ascii());
        }
        whole
    }

    #[test]
    fn a_bare_line_feed_anywhere_in_a_head_is_found() {
        let head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(found(head), None);
        for (at, byte) in head.iter().enumerate() {
            if *byte == b'\r' {
                let bare = [&head[..at], &head[at + 1..]].concat();
                assert_eq!(found(&bare), Some(0), "{}", bare.escape_ascii());
            }
        }
        assert_eq!(found(b"GET / HTTP/1.1\n\n"), Some(0));
        assert_eq!(found(b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(0), "before the request line");
        assert_eq!(found(b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), None, "empty lines may come");
        assert_eq!(found(b"GET / HTTP/1.1\r\nHost: x\n"), None, "it has not ended");
    }

    #[test]
    fn line_feeds_in_bodies_are_not_looked_at() {
        let body = b"{\n\"key\":\n\n\"u\"\r\n\r\nGET / HTTP/1.1\nHost: y\n\n}";
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\nCONTENT-LENGTH:   {} \r\n\r\n", body.len());
        let exchange = [head.as_bytes(), body].concat();
        assert_eq!(found(&exchange.repeat(3)), None);
        let bare = [&exchange.repeat(3)[..], b"GET / HTTP/1.1\nHost: y\n\n"].concat();
        assert_eq!(found(&bare), Some(3), "the fourth request");
    }

    #[test]
    fn chunks_are_bodies_and_their_sizes_and_trailers_no_heads() {
        let exchange = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, Chunked\r\ncontent-length: 3\r\n\r\n\
            5;x=y\r\n\n\n\n\n\n\r\n1a\r\nabcdefghijklmnopqrstuvwxy\n\r\n0\r\nt: v\r\n\r\n";
        assert_eq!(found(&exchange.repeat(3)), None);
        assert_eq!(found(&[&exchange.repeat(2)[..], b"GET / HTTP/1.1\nhost: x\r\n\r\n"].concat()), Some(2));
    }

    /// hyper refuses these; whatever follows is not looked at.
    #[test]
    fn what_cannot_be_followed_is_left_to_hyper() {
        let long = format!("content-length: {}5", "0".repeat(200));
        let fields = [
            "content-length: x",
            "content-length: -1",
            "content-length: 99999999999999999999",
            "transfer-encoding: gzip",
            &long,
        ];
        for field in fields {
            let bytes = format!("POST / HTTP/1.1\r\nhost: x\r\n{field}\r\n\r\n\n\nGET / HTTP/1.1\n\n");
            assert_eq!(found(bytes.as_bytes()), None, "{field}");
        }
        assert_eq!(found(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\nGET / HTTP/1.1\n\n"), None);
    }

    #[test]
    fn no_bytes_at_all_bring_it_down() {
        let mut seed = 7_u64;
        for _ in 0..2_000 {
            let mut lines = Lines::new();
            let alphabet = b"\r\n\r\n:0a1fF \tcontent-lengthtransfer-encodingchunked,;GET";
            let bytes: Vec<u8> = (0..400)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[usize::try_from(seed >> 33).unwrap() % alphabet.len()]
                })
                .collect();
            lines.scan(&bytes);
        }
    }
}
