//! How every exchange ends, on the data port and on the admin port alike.
//!
//! What nobody has read of a body is read away before the answer goes out: otherwise the connection would have to end with
//! it, and a client that reuses connections finds its next request lost. There is a bound on that, and beyond it the
//! answer says that the connection ends. To `HEAD` everything is told but the content, and while the server stops, clients are
//! told to leave.

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

use super::Reply;
use crate::{config::Bounds, shutdown::Shutdown};

/// A request under way.
#[derive(Debug)]
pub(crate) struct Exchange<B> {
    body: Heard<B>,
    is_head: bool,
    version: Version,
    /// The client sends its body only when it is asked to, and reading asks.
    waits_for_a_word: bool,
    most: usize,
    until: Instant,
}

/// A body, and how much is known of it.
#[derive(Debug)]
pub(crate) struct Heard<B> {
    body: B,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Unasked,
    Asked,
    Ended,
    Broken,
}

impl<B: Body + Unpin> Exchange<B> {
    /// Takes a request apart, so that its body can be looked after when it has been answered.
    pub(crate) fn begin(request: Request<B>, bounds: Bounds) -> (Self, Parts) {
        let (head, body) = request.into_parts();
        let exchange = Self {
            body: Heard { body, state: State::Unasked },
            is_head: head.method == Method::HEAD,
            version: head.version,
            waits_for_a_word: head.headers.contains_key(EXPECT),
            most: bounds.body_bytes,
            until: Instant::now() + bounds.request.min(AWAY),
        };
        (exchange, head)
    }

    /// The body, for whoever wants to read it.
    pub(crate) fn body(&mut self) -> &mut Heard<B> {
        &mut self.body
    }

    /// The answer as it may go out.
    pub(crate) async fn end(mut self, mut reply: Reply, stopping: &Shutdown) -> Reply {
        let is_heard_out = self.read_away().await;
        if self.version <= Version::HTTP_11 && (!is_heard_out || stopping.has_begun()) {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.is_head {
            // HTTP/1 would see to this by itself, HTTP/2 does not.
            let content = std::mem::take(reply.body_mut());
            if let Some(length) = content.size_hint().exact() {
                reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        reply
    }

    /// Whether nothing is left of the body.
    async fn read_away(&mut self) -> bool {
        let Self { body, most, until, .. } = self;
        if body.is_end_stream() {
            return true;
        }
        let is_asked_for = body.state == State::Asked || !self.waits_for_a_word;
        if body.state == State::Broken || !is_asked_for || body.size_hint().lower() > *most as u64 {
            return false;
        }
        let away = async {
            let mut room = *most;
            while let Some(frame) = body.frame().await {
                let taken = frame.ok().and_then(|frame| room.checked_sub(frame.data_ref().map_or(0, Buf::remaining)));
                let Some(rest) = taken else { return false };
                room = rest;
            }
            true
        };
        timeout_at(*until, away).await.unwrap_or(false)
    }
}

impl<B: Body + Unpin> Body for Heard<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { body, state } = self.get_mut();
        if *state == State::Ended {
            return Poll::Ready(None);
        }
        *state = State::Asked;
        let frame = ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => *state = State::Broken,
            None => *state = State::Ended,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer does not wait longer than this for a body that nobody wants: some proxies announce one and do not send it.
const AWAY: Duration = Duration::from_millis(250);
