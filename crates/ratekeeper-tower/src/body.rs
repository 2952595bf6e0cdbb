//! A response body that holds a permit until it has ended.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::permit::HeldPermit;

pin_project! {
    /// The body of the inner service, or of a refusal.
    pub struct ResponseBody<B> {
        #[pin]
        content: Content<B>,
        permit: Option<Box<dyn HeldPermit>>,
    }
}

pin_project! {
    #[project = ContentPinned]
    enum Content<B> {
        Served { #[pin] body: B },
        Refused { bytes: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn served(body: B, permit: Option<Box<dyn HeldPermit>>) -> Self {
        Self { content: Content::Served { body }, permit }
    }

    pub(crate) fn refused(bytes: Bytes) -> Self {
        Self { content: Content::Refused { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) }, permit: None }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = match this.content.project() {
            ContentPinned::Served { body } => ready!(body.poll_frame(cx)),
            ContentPinned::Refused { bytes } => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
        };
        if !matches!(frame, Some(Ok(_))) {
            *this.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Served { body } => body.is_end_stream(),
            Content::Refused { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Served { body } => body.size_hint(),
            Content::Refused { bytes } => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// An empty body, for outer layers that respond themselves.
impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::served(B::default(), None)
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("holds_permit", &self.permit.is_some()).finish_non_exhaustive()
    }
}
