//! Bodies that are charged to a connection's account: requests as they come in, answers until the socket has taken them.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::account::{Account, Charge, NoRoom, PROGRESS_BYTES, Since};

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request. What has come of it is charged until the body is dropped, with its reader.
#[derive(Debug)]
pub struct Received {
    body: Incoming,
    account: Account,
    bytes: usize,
    charge: Option<Charge>,
}

impl Received {
    pub(super) fn new(body: Incoming, account: Account) -> Self {
        Self { body, account, bytes: 0, charge: None }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, account, bytes, charge } = self.get_mut();
        let frame = ready!(Pin::new(body).poll_frame(cx)?);
        let came = frame.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        *bytes += came;
        // The usual body was admitted with its head.
        if came > 0 && *bytes > USUAL_BODY_BYTES {
            match charge {
                Some(charge) => charge.grow(came)?,
                None => *charge = Some(account.charge(*bytes)?),
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

/// The body of an answer, with the charge of its request.
#[derive(Debug)]
pub struct Answer<B> {
    body: B,
    charge: Charge,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, charge: Charge) -> Self {
        Self { body, charge }
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Unsent;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Unsent>, BoxError>>> {
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Poll::Ready(Some(Ok(Frame::data(Unsent::new(data, self.charge.account())?)))),
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

/// A piece of an answer on its way to the socket.
#[derive(Debug)]
pub struct Unsent {
    data: Bytes,
    /// Taken since the peer's time began.
    taken: usize,
    since: Since,
    charge: Charge,
}

impl Unsent {
    fn new(data: Bytes, account: &Account) -> Result<Self, NoRoom> {
        let bytes = data.len() + PIECE_BYTES;
        // The usual piece was admitted with its request: permits may have been taken for it.
        let charge = if data.len() <= USUAL_BYTES { account.charge_anyway(bytes) } else { account.charge(bytes)? };
        Ok(Self { data, taken: 0, since: account.waits(), charge })
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.charge.account().waits_no_more(self.since);
    }
}

impl Buf for Unsent {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
        self.taken += count;
        if self.taken >= PROGRESS_BYTES {
            self.taken = 0;
            self.since = self.charge.account().waits_on(self.since);
        }
    }
}

/// A longer body is charged by itself.
const USUAL_BODY_BYTES: usize = 1 << 10;
/// What h2 keeps for a piece that it has queued.
const PIECE_BYTES: usize = 1 << 10;
/// A longer piece is admitted separately.
const USUAL_BYTES: usize = 4 << 10;
