//! Control frame budget of an HTTP/2 connection: a token bucket, charged as bytes pass.
//!
//! WINDOW_UPDATE, PRIORITY, SETTINGS, PING and RST_STREAM cost a peer about nine bytes each, carry no request, and take
//! the server as long as part of a request does. h2 limits only some of them.
//!
//! | | tokens |
//! |---|---|
//! | a frame without a request; trailers, CONTINUATION, DATA below 64 bytes that does not end a stream | −1 |
//! | a request: HEADERS of a new stream | +8 |
//! | 512 bytes sent | +1 |
//! | a second | +100 |
//! | initially, and at most | 2 000 |
//!
//! What clients need: nghttp2, Go and gRPC send up to two WINDOW_UPDATEs per DATA frame received, gRPC one PING and one
//! SETTINGS for some of them (its bandwidth estimate), a client with short deadlines one RST_STREAM per request,
//! browsers six PRIORITY frames at the start. That is at most five per request; longer responses refill the bucket.
//!
//! A frame header is nine bytes (RFC 9113, section 4.1); it is copied only if it spans two reads. The clock is read only
//! when the bucket is empty.

use std::time::Duration;

use tokio::time::Instant;

/// The budget of one connection, with its position in the frame stream.
#[derive(Debug)]
pub(super) struct FrameBudget {
    /// The received part of a frame header that spans two reads.
    header: [u8; HEADER_BYTES],
    header_len: usize,
    /// Bytes of the current frame's payload that are still to come.
    payload: usize,
    /// The highest stream so far.
    last_stream: u32,
    /// The stream whose header block has not ended; 0 between header blocks.
    open_block: u32,
    bucket: FrameTokens,
    is_exhausted: bool,
}

#[derive(Debug)]
struct FrameTokens {
    /// In bytes sent, so that refilling needs no division.
    tokens: i64,
    refilled: Instant,
}

impl FrameBudget {
    /// For a connection whose preface has passed.
    pub(super) fn new() -> Self {
        Self {
            header: [0; HEADER_BYTES],
            header_len: 0,
            payload: 0,
            last_stream: 0,
            open_block: 0,
            bucket: FrameTokens { tokens: MAX_TOKENS, refilled: Instant::now() },
            is_exhausted: false,
        }
    }

    /// Charges the frames in the bytes received. If the budget is exhausted and a frame ends within them: the offset of
    /// that end.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        loop {
            if self.is_exhausted && self.is_between_frames() {
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
            match rest.split_first_chunk::<HEADER_BYTES>() {
                Some((header, after)) if self.header_len == 0 => {
                    rest = after;
                    self.charge(*header);
                }
                _ => {
                    let passed = (HEADER_BYTES - self.header_len).min(rest.len());
                    self.header[self.header_len..self.header_len + passed].copy_from_slice(&rest[..passed]);
                    self.header_len += passed;
                    rest = &rest[passed..];
                    if self.header_len == HEADER_BYTES {
                        self.header_len = 0;
                        self.charge(self.header);
                    }
                }
            }
        }
    }

    /// Refills the bucket for bytes sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.bucket.refill(i64::try_from(bytes).unwrap_or(MAX_TOKENS));
    }

    /// Whether the next byte starts a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.payload == 0 && self.header_len == 0
    }

    /// Frames that make h2 close the connection with GOAWAY and `ENHANCE_YOUR_CALM`: a header block in more
    /// CONTINUATION frames than it accepts. hyper has no call for that. Valid wherever a frame may start.
    pub(super) fn goaway_trigger(&self) -> Vec<u8> {
        let frame = |kind: u8, stream: u32| {
            let [a, b, c, d] = stream.to_be_bytes();
            [0, 0, 0, kind, 0, a, b, c, d]
        };
        let stream = if self.open_block > 0 { self.open_block } else { u32::MAX >> 1 };
        let start = (self.open_block == 0).then(|| frame(HEADERS, stream));
        start.into_iter().chain([frame(CONTINUATION, stream); TRIGGER_FRAMES]).flatten().collect()
    }

    /// Charges, or refills for, the frame that starts with this header.
    fn charge(&mut self, header: [u8; HEADER_BYTES]) {
        let [high, middle, low, kind, flags, stream @ ..] = header;
        self.payload = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        if matches!(kind, HEADERS | CONTINUATION) {
            self.open_block = if flags & END_HEADERS == 0 { stream } else { 0 };
        }
        match kind {
            HEADERS if stream > self.last_stream => {
                self.last_stream = stream;
                self.bucket.refill(PER_REQUEST);
            }
            DATA if self.payload >= SMALL_DATA || flags & END_STREAM != 0 => {}
            _ => self.is_exhausted |= !self.bucket.take(FRAME),
        }
    }
}

impl FrameTokens {
    fn refill(&mut self, tokens: i64) {
        self.tokens = self.tokens.saturating_add(tokens).min(MAX_TOKENS);
    }

    /// Takes tokens; whether there were enough.
    fn take(&mut self, tokens: i64) -> bool {
        self.tokens -= tokens;
        if self.tokens < 0 {
            let now = Instant::now();
            let elapsed = now.saturating_duration_since(self.refilled).min(Duration::from_secs(3_600));
            self.refilled = now;
            let elapsed = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
            self.refill(elapsed.saturating_mul(PER_SECOND) / 1_000_000);
        }
        self.tokens >= 0
    }
}

const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Smaller DATA frames cost more to process than they carry.
const SMALL_DATA: usize = 64;

/// One token.
const FRAME: i64 = 512;
const MAX_TOKENS: i64 = 2_000 * FRAME;
const PER_REQUEST: i64 = 8 * FRAME;
const PER_SECOND: i64 = 100 * FRAME;
/// h2 accepts five CONTINUATION frames in a header block, more if header fields may exceed 64 KiB.
const TRIGGER_FRAMES: usize = 32;

#[cfg(test)]
mod tests;
