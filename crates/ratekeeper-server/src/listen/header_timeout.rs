//! Header timeout: time limit of a request header block, separate from the idle timeout between requests.
//!
//! hyper has one timer for both. Here the first byte after a response starts the header block, and the call of the
//! service ends it. On HTTP/2 control frames arrive between requests, so only the first header block has this limit; a
//! peer that stops within a later one does not acknowledge PINGs either.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use super::request_counts::RequestCounts;

/// The timer of one connection.
#[derive(Debug)]
pub(super) struct HeaderTimeout {
    requests: RequestCounts,
    limit: Duration,
    block: Option<HeaderBlock>,
}

/// A header block of which at least one byte was received.
#[derive(Debug)]
struct HeaderBlock {
    /// Requests before it.
    number: u64,
    deadline: Instant,
    /// Created at the first wait; most header blocks arrive in one read.
    timer: Option<Pin<Box<Sleep>>>,
}

impl HeaderTimeout {
    pub(super) fn new(requests: RequestCounts, limit: Duration) -> Self {
        Self { requests, limit, block: None }
    }

    /// Bytes were received.
    pub(super) fn received(&mut self) {
        let number = self.requests.received();
        if self.block.as_ref().is_some_and(|block| block.number == number) {
            return;
        }
        let start = || HeaderBlock { number, deadline: Instant::now() + self.limit, timer: None };
        self.block = self.requests.is_between_requests().then(start);
    }

    /// Ready once a header block has taken longer than the limit.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(HeaderBlock { number, deadline, timer }) = &mut self.block else { return Poll::Pending };
        if *number != self.requests.received() {
            self.block = None;
            return Poll::Pending;
        }
        timer.get_or_insert_with(|| Box::pin(sleep_until(*deadline))).as_mut().poll(cx)
    }
}
