//! Request counts of one HTTP connection, shared by the stream, which sees bytes, and the service, which sees requests.
//!
//! The stream cannot know when hyper has parsed a header block, and the service cannot see the bytes. The counts connect
//! them: whether the bytes that arrive start a request ([`HeaderTimeout`](super::header_timeout::HeaderTimeout)), and
//! which request has a bare line feed ([`BareLfScanner`](super::bare_lf::BareLfScanner)).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use hyper::Version;

/// The counts of one connection. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RequestCounts(Arc<SharedCounts>);

#[derive(Debug)]
struct SharedCounts {
    received: AtomicU64,
    answered: AtomicU64,
    /// The first request whose header block has a bare line feed.
    with_bare_lf: AtomicU64,
    is_http2: AtomicBool,
}

impl RequestCounts {
    /// Counts a request whose header block is complete. Whether the block has a bare line feed.
    pub(crate) fn count_received(&self, version: Version) -> bool {
        let number = self.0.received.fetch_add(1, Ordering::Relaxed);
        if version == Version::HTTP_2 {
            self.0.is_http2.store(true, Ordering::Relaxed);
        }
        number == self.0.with_bare_lf.load(Ordering::Relaxed)
    }

    /// Counts a request whose response is ready.
    pub(super) fn count_answered(&self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks a request, counted from 0, as having a bare line feed.
    pub(super) fn mark_bare_lf(&self, number: u64) {
        self.0.with_bare_lf.store(number, Ordering::Relaxed);
    }

    /// Requests whose header block is complete.
    pub(crate) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Whether a request came over HTTP/2, so that bytes between requests may be control frames.
    pub(super) fn is_http2(&self) -> bool {
        self.0.is_http2.load(Ordering::Relaxed)
    }

    /// Whether the next byte starts a header block.
    pub(super) fn is_between_requests(&self) -> bool {
        !self.is_http2() && self.received() == self.0.answered.load(Ordering::Relaxed)
    }
}

impl Default for RequestCounts {
    fn default() -> Self {
        Self(Arc::new(SharedCounts {
            received: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            with_bare_lf: AtomicU64::new(u64::MAX),
            is_http2: AtomicBool::new(false),
        }))
    }
}
