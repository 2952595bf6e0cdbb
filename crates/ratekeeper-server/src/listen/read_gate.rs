//! Read gate: decides whether, and how much, is read from an HTTP connection.
//!
//! - While the socket accepts no more bytes, nothing is read: a peer that does not read its responses cannot send more
//!   requests.
//! - While the port is short of memory, HTTP/2 is read in small pieces, and the next piece only after earlier refusals
//!   have been passed to h2. h2's stream tables grow with the number of concurrent streams and are freed with the
//!   connection. A peer that opens all of its streams in one segment would grow them to their maximum, although most of
//!   the streams are refused.

use std::{
    mem,
    task::{Context, Poll, Waker, ready},
};

use super::account::Account;

/// The gate of one connection.
#[derive(Debug)]
pub(super) struct ReadGate {
    account: Account,
    is_write_blocked: bool,
    /// Woken when the socket accepts bytes again.
    reader: Option<Waker>,
    /// Whether a small piece was read whose streams h2 has not accepted yet.
    must_yield: bool,
}

impl ReadGate {
    pub(super) fn new(account: Account) -> Self {
        Self { account, is_write_blocked: false, reader: None, must_yield: false }
    }

    /// Ready with the number of bytes that may be read now.
    pub(super) fn poll_read(&mut self, is_http2: bool, cx: &mut Context<'_>) -> Poll<usize> {
        if self.is_write_blocked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if mem::take(&mut self.must_yield) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !is_http2 || !self.account.port().is_under_pressure() {
            return Poll::Ready(usize::MAX);
        }
        ready!(self.account.poll_refusals_sent(cx));
        self.must_yield = true;
        Poll::Ready(PIECE_BYTES)
    }

    /// Records whether the last write or flush completed.
    pub(super) fn written(&mut self, is_complete: bool) {
        if self.is_write_blocked != is_complete {
            return;
        }
        self.is_write_blocked = !is_complete;
        self.account.set_write_blocked(!is_complete);
        if is_complete && let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Header blocks of at most 18 streams, usually of one to five.
const PIECE_BYTES: usize = 256;
