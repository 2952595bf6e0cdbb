//! A head that was begun has to end soon, whereas a connection may rest between requests for long.
//!
//! hyper has one clock for both. Here the bytes tell them apart: the first ones after an answer begin a head, and it has
//! ended when the service is called. On HTTP/2 frames pass that are no requests, so only the first head has this bound; a
//! later one that stops in the middle does not answer our pings either.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::Version;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// How far the requests of one connection have come. Clones tell the same.
#[derive(Clone, Debug)]
pub(crate) struct Heads(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    ended: AtomicU64,
    /// The first head with a bare line feed.
    bare: AtomicU64,
    answered: AtomicU64,
    /// HTTP/2: many requests at once, and other things between them.
    is_shared: AtomicBool,
}

impl Heads {
    /// A head is complete, and its request is under way; whether it had a bare line feed.
    pub(super) fn ended(&self, version: Version) -> bool {
        let head = self.0.ended.fetch_add(1, Ordering::Relaxed);
        if version == Version::HTTP_2 {
            self.0.is_shared.store(true, Ordering::Relaxed);
        }
        head == self.0.bare.load(Ordering::Relaxed)
    }

    /// This head, counted from 0, has a bare line feed.
    pub(super) fn is_bare(&self, head: u64) {
        self.0.bare.store(head, Ordering::Relaxed);
    }

    /// Its request is answered.
    pub(super) fn answered(&self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// How many heads have been complete so far.
    pub(super) fn count(&self) -> u64 {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Whether requests share the connection, so that its bytes do not tell whether anybody asks anything.
    pub(super) fn are_shared(&self) -> bool {
        self.0.is_shared.load(Ordering::Relaxed)
    }

    /// Whether bytes that come now begin a head.
    fn is_resting(&self) -> bool {
        !self.are_shared() && self.count() == self.0.answered.load(Ordering::Relaxed)
    }
}

impl Default for Heads {
    fn default() -> Self {
        Self(Arc::new(Counts {
            ended: AtomicU64::new(0),
            bare: AtomicU64::new(u64::MAX),
            answered: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
        }))
    }
}

/// A stream whose reads fail when a head takes too long.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    heads: Heads,
    patience: Duration,
    begun: Option<Begun>,
}

/// A head of which something has come.
#[derive(Debug)]
struct Begun {
    /// Heads before it.
    before: u64,
    until: Instant,
    /// Set when there is something to wait for; most heads come in one piece.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    /// So long for a head.
    pub(super) fn new(stream: S, heads: Heads, patience: Duration) -> Self {
        Self { stream, heads, patience, begun: None }
    }

    fn bytes_came(&mut self) {
        let before = self.heads.count();
        if self.begun.as_ref().is_some_and(|begun| begun.before == before) {
            return;
        }
        let begun = || Begun { before, until: Instant::now() + self.patience, alarm: None };
        self.begun = self.heads.is_resting().then(begun);
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(Begun { before, until, alarm }) = &mut self.begun else { return false };
        if *before != self.heads.count() {
            self.begun = None;
            return false;
        }
        alarm.get_or_insert_with(|| Box::pin(sleep_until(*until))).as_mut().poll(cx).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let had = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending if self.is_late(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
            ready => {
                if buf.filled().len() > had {
                    self.bytes_came();
                }
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
