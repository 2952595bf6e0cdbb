//! HTTP exchanges and keep-alive: unread request bodies, `HEAD` responses, `Connection: close`.
//!
//! The data port and the admin port share this module. The unread part of a request body is read and discarded before
//! the response is sent. Otherwise the connection would have to close after the response, and a client that reuses
//! connections would lose its next request. If the body does not end within the bound, or the client still waits for
//! `100 Continue`, an HTTP/1 response carries `Connection: close`; so does every one during shutdown. The response to
//! `HEAD` has all header fields and no content.
//!
//! Bound: at most `Bounds::body_bytes` are discarded, until the shorter of `DRAIN_TIMEOUT` and `Bounds::request` has
//! passed since the start of the exchange.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Buf;
use http_body_util::BodyExt;
use hyper::{
    Method, Request, Version,
    body::{Body, Frame, SizeHint},
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderValue},
    http::request::Parts,
};
use tokio::time::{Instant, timeout_at};

use super::HttpResponse;
use crate::{config::Bounds, shutdown::Shutdown};

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Exchange<B> {
    body: TrackedBody<B>,
    is_head: bool,
    version: Version,
    /// The client sends its body only after `100 Continue`, which the first read of the body triggers.
    expects_continue: bool,
    most: usize,
    until: Instant,
}

/// A request body that records how far it was read.
#[derive(Debug)]
pub(crate) struct TrackedBody<B> {
    body: B,
    state: BodyState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BodyState {
    Unread,
    Reading,
    Ended,
    Broken,
}

impl<B: Body + Unpin> Exchange<B> {
    /// Separates the header block of a request from its body, which the exchange keeps until the response is ready.
    pub(crate) fn begin(request: Request<B>, bounds: Bounds) -> (Self, Parts) {
        let (head, body) = request.into_parts();
        let exchange = Self {
            body: TrackedBody { body, state: BodyState::Unread },
            is_head: head.method == Method::HEAD,
            version: head.version,
            expects_continue: head.headers.contains_key(EXPECT),
            most: bounds.body_bytes,
            until: Instant::now() + bounds.request.min(DRAIN_TIMEOUT),
        };
        (exchange, head)
    }

    /// The body, for the handler to read.
    pub(crate) fn body(&mut self) -> &mut TrackedBody<B> {
        &mut self.body
    }

    /// Drains the body, and completes the response for sending.
    pub(crate) async fn end(mut self, mut reply: HttpResponse, stopping: &Shutdown) -> HttpResponse {
        let is_drained = self.drain().await;
        if self.version <= Version::HTTP_11 && (!is_drained || stopping.has_begun()) {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.is_head {
            // hyper does this for HTTP/1, not for HTTP/2.
            let content = std::mem::take(reply.body_mut());
            if let Some(length) = content.size_hint().exact() {
                reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        reply
    }

    /// Reads and discards the rest of the body. Returns whether the body ended within the bounds.
    async fn drain(&mut self) -> bool {
        let Self { body, most, until, .. } = self;
        if body.is_end_stream() {
            return true;
        }
        let is_expected = body.state == BodyState::Reading || !self.expects_continue;
        if body.state == BodyState::Broken || !is_expected || body.size_hint().lower() > *most as u64 {
            return false;
        }
        let discard = async {
            let mut room = *most;
            while let Some(frame) = body.frame().await {
                let left = frame.ok().and_then(|frame| room.checked_sub(frame.data_ref().map_or(0, Buf::remaining)));
                let Some(rest) = left else { return false };
                room = rest;
            }
            true
        };
        timeout_at(*until, discard).await.unwrap_or(false)
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { body, state } = self.get_mut();
        if *state == BodyState::Ended {
            return Poll::Ready(None);
        }
        *state = BodyState::Reading;
        let frame = ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => *state = BodyState::Broken,
            None => *state = BodyState::Ended,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.state == BodyState::Ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Time from the start of an exchange during which a response waits for an unread body. Some proxies announce a body
/// and do not send it.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
