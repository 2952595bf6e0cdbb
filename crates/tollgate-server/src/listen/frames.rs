//! HTTP/2 frame scanner: charges control frames to a budget as bytes pass, and lets h2 say goodbye when it is used up.
//!
//! WINDOW_UPDATE, PRIORITY, SETTINGS, PING and RST_STREAM cost a peer nine bytes or a few more, ask for nothing, and take the
//! server as long as a part of a request does. h2 counts only some of them. So every connection has a token bucket:
//!
//! | | tokens |
//! |---|---|
//! | a frame that asks for nothing; trailers, CONTINUATION, DATA below 64 bytes that does not end a stream | −1 |
//! | a request: HEADERS of a new stream | +8 |
//! | 512 bytes of answers | +1 |
//! | a second | +100 |
//! | at the beginning, and at most | 2 000 |
//!
//! What clients need: nghttp2, Go and gRPC send up to two WINDOW_UPDATEs for a DATA frame that they receive, gRPC one PING and one
//! SETTINGS for some of them (its estimate of the bandwidth), an impatient client one RST_STREAM for a request, browsers six
//! PRIORITY frames at the start. That is five for a request at most; longer answers earn their own.
//!
//! A frame's header is nine bytes (RFC 9113, section 4.1); the scanner copies them only where they are cut in two. The clock is read
//! only when the bucket is empty.

use std::time::Duration;

use tokio::time::Instant;

/// What has passed of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    /// A frame's header, as far as it has come.
    head: [u8; HEAD_BYTES],
    have: usize,
    /// What is left of a frame's payload.
    payload: usize,
    /// The highest stream so far.
    last_stream: u32,
    /// The stream whose header block has not ended; 0 between blocks.
    open_block: u32,
    bucket: Bucket,
    is_spent: bool,
}

#[derive(Debug)]
struct Bucket {
    /// In bytes of answers, so that they need no division.
    tokens: i64,
    filled: Instant,
}

impl Frames {
    /// For a connection whose preface has passed.
    pub(super) fn new() -> Self {
        Self {
            head: [0; HEAD_BYTES],
            have: 0,
            payload: 0,
            last_stream: 0,
            open_block: 0,
            bucket: Bucket { tokens: MAX_TOKENS, filled: Instant::now() },
            is_spent: false,
        }
    }

    /// Looks at bytes that have come. If the budget is used up and a frame ends among them: how many there are up to that end.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        loop {
            if self.is_spent && self.is_between_frames() {
                return Some(bytes.len() - rest.len());
            }
            if rest.is_empty() {
                return None;
            }
            if self.payload > 0 {
                let passed = self.payload.min(rest.len());
                self.payload -= passed;
                rest = &rest[passed..];
                continue;
            }
            match rest.split_first_chunk::<HEAD_BYTES>() {
                Some((head, after)) if self.have == 0 => {
                    rest = after;
                    self.begins(*head);
                }
                _ => {
                    let passed = (HEAD_BYTES - self.have).min(rest.len());
                    self.head[self.have..self.have + passed].copy_from_slice(&rest[..passed]);
                    self.have += passed;
                    rest = &rest[passed..];
                    if self.have == HEAD_BYTES {
                        self.have = 0;
                        self.begins(self.head);
                    }
                }
            }
        }
    }

    /// So many bytes of answers have been sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.bucket.earn(i64::try_from(bytes).unwrap_or(MAX_TOKENS));
    }

    /// Whether the next byte begins a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.payload == 0 && self.have == 0
    }

    /// Frames that make h2 close the connection with GOAWAY and `ENHANCE_YOUR_CALM`, since it cannot be asked to: a header block in
    /// more pieces than it takes. They may stand wherever a frame begins.
    pub(super) fn goodbye(&self) -> Vec<u8> {
        let frame = |kind: u8, stream: u32| {
            let [a, b, c, d] = stream.to_be_bytes();
            [0, 0, 0, kind, 0, a, b, c, d]
        };
        let stream = if self.open_block > 0 { self.open_block } else { u32::MAX >> 1 };
        let begin = (self.open_block == 0).then(|| frame(HEADERS, stream));
        begin.into_iter().chain([frame(CONTINUATION, stream); GOODBYE_FRAMES]).flatten().collect()
    }

    fn begins(&mut self, head: [u8; HEAD_BYTES]) {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        self.payload = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        if matches!(kind, HEADERS | CONTINUATION) {
            self.open_block = if flags & END_HEADERS == 0 { stream } else { 0 };
        }
        match kind {
            HEADERS if stream > self.last_stream => {
                self.last_stream = stream;
                self.bucket.earn(PER_REQUEST);
            }
            DATA if self.payload >= SMALL_DATA || flags & END_STREAM != 0 => {}
            _ => self.is_spent |= !self.bucket.take(FRAME),
        }
    }
}

impl Bucket {
    fn earn(&mut self, tokens: i64) {
        self.tokens = self.tokens.saturating_add(tokens).min(MAX_TOKENS);
    }

    /// Whether there is enough.
    fn take(&mut self, tokens: i64) -> bool {
        self.tokens -= tokens;
        if self.tokens < 0 {
            let now = Instant::now();
            let since = now.saturating_duration_since(self.filled).min(Duration::from_secs(3_600));
            self.filled = now;
            let since = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
            self.earn(since.saturating_mul(PER_SECOND) / 1_000_000);
        }
        self.tokens >= 0
    }
}

const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// A message that comes in smaller pieces is a flood of them.
const SMALL_DATA: usize = 64;

/// One token.
const FRAME: i64 = 512;
const MAX_TOKENS: i64 = 2_000 * FRAME;
const PER_REQUEST: i64 = 8 * FRAME;
const PER_SECOND: i64 = 100 * FRAME;
/// h2 takes five pieces of a header block, or more where a head may be longer than 64 KiB.
const GOODBYE_FRAMES: usize = 32;

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
