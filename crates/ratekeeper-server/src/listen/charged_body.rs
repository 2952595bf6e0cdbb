//! Bodies charged to a connection's account: requests as they are received, responses until the socket accepts them.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{
    account::{Account, Charge, OutOfBudget},
    port_budget::Tick,
};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request. Its bytes are charged until it is dropped.
#[derive(Debug)]
pub struct ChargedRequestBody {
    body: Incoming,
    account: Account,
    received: usize,
    charge: Option<Charge>,
}

impl ChargedRequestBody {
    pub(super) fn new(body: Incoming, account: Account) -> Self {
        Self { body, account, received: 0, charge: None }
    }
}

impl Body for ChargedRequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, account, received, charge } = self.get_mut();
        let frame = ready!(Pin::new(body).poll_frame(cx)?);
        let bytes = frame.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        *received += bytes;
        // A shorter body is part of the request's charge.
        if bytes > 0 && *received > USUAL_BODY_BYTES {
            match charge {
                Some(charge) => charge.grow(bytes)?,
                None => *charge = Some(account.charge(*received)?),
            }
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, with the charge of its request.
#[derive(Debug)]
pub struct ChargedResponseBody<B> {
    body: B,
    charge: Charge,
}

impl<B> ChargedResponseBody<B> {
    pub(super) fn new(body: B, charge: Charge) -> Self {
        Self { body, charge }
    }
}

impl<B> Body for ChargedResponseBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = UnsentChunk;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<UnsentChunk>, BoxError>>> {
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Poll::Ready(Some(Ok(Frame::data(UnsentChunk::new(data, self.charge.account())?)))),
                Err(frame) => Poll::Ready(frame.into_trailers().ok().map(|trailers| Ok(Frame::trailers(trailers)))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A chunk of a response that the socket has not accepted yet.
#[derive(Debug)]
pub struct UnsentChunk {
    data: Bytes,
    /// Accepted since the stall time was last restarted.
    progress: usize,
    since: Tick,
    charge: Charge,
}

impl UnsentChunk {
    fn new(data: Bytes, account: &Account) -> Result<Self, OutOfBudget> {
        let bytes = data.len() + CHUNK_BYTES;
        // A short chunk is never refused here: permits may have been taken for it.
        let charge =
            if data.len() <= USUAL_CHUNK_BYTES { account.charge_unchecked(bytes) } else { account.charge(bytes)? };
        Ok(Self { data, progress: 0, since: account.add_unsent(), charge })
    }
}

impl Drop for UnsentChunk {
    fn drop(&mut self) {
        self.charge.account().remove_unsent(self.since);
    }
}

impl Buf for UnsentChunk {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
        self.progress += count;
        if self.progress >= PROGRESS_BYTES {
            self.progress = 0;
            self.since = self.charge.account().renew_unsent(self.since);
        }
    }
}

/// Bytes that the peer has to accept within a stall time.
const PROGRESS_BYTES: usize = 4 << 10;
/// A longer request body is charged separately.
const USUAL_BODY_BYTES: usize = 1 << 10;
/// h2's state for a chunk in its queue.
const CHUNK_BYTES: usize = 1 << 10;
/// A longer chunk needs room in the budget.
const USUAL_CHUNK_BYTES: usize = 4 << 10;
