//! The room that calls take while they are answered: memory for all of them together has a bound.
//!
//! Every call has room for a message of the usual size from the beginning. A longer one takes more as it comes in, and
//! keeps it until it is answered. It is not refused by its length alone while there is room: a header of a client's may
//! stand in many descriptors, and an error would let that client pass wherever the proxy lets errors pass.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::listen::{NoRoom, Received};

/// The room that one call has taken; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    taken: Mutex<OwnedSemaphorePermit>,
}

impl Room {
    /// Room for one more call, if there is any.
    pub(super) fn take(all: &Arc<Semaphore>) -> Option<Arc<Self>> {
        let taken = Arc::clone(all).try_acquire_owned().ok()?;
        Some(Arc::new(Self { all: Arc::clone(all), taken: Mutex::new(taken) }))
    }

    /// Sees to it that this many bytes have room.
    fn hold(&self, bytes: usize) -> Result<(), Status> {
        let mut taken = self.taken.lock();
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(taken.num_permits());
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        if missing > 0 {
            let more = Arc::clone(&self.all).try_acquire_many_owned(missing);
            taken.merge(more.map_err(|_| full())?);
        }
        Ok(())
    }
}

/// What a call is told for which there is no room.
pub(super) fn full() -> Status {
    Status::unavailable("too many calls are being answered; come back in a moment")
}

fn too_long() -> Status {
    Status::out_of_range(format!("a call has one message, of {MAX_MESSAGE_BYTES} bytes at most"))
}

/// The body of a call, which takes room as it comes in.
pub(super) struct Measured {
    body: Received,
    bytes: usize,
    room: Arc<Room>,
}

impl Measured {
    pub(super) fn new(body: Received, room: Arc<Room>) -> Self {
        Self { body, bytes: 0, room }
    }
}

impl Body for Measured {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| if error.is::<NoRoom>() { full().into() } else { error })?;
        if let Some(data) = frame.data_ref() {
            self.bytes += data.len();
            // A call has one message; whoever sends more would take all the room there is.
            if self.bytes > MAX_MESSAGE_BYTES + FRAME_HEAD_BYTES {
                return Poll::Ready(Some(Err(too_long().into())));
            }
            if self.bytes > UNIT_BYTES {
                self.room.hold(self.bytes)?;
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The room that every call has from the beginning; few messages are longer.
pub(super) const UNIT_BYTES: usize = 64 << 10;

/// The longest message. Envoy takes 60 KiB of header fields from a client unless told otherwise, and all of them may
/// stand in each of the 64 descriptors that a request may have.
pub(super) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// What gRPC puts before each message.
const FRAME_HEAD_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_takes_the_room_of_several_calls_until_it_is_answered() {
        let all = Arc::new(Semaphore::new(4));
        let call = Room::take(&all).unwrap();
        call.hold(UNIT_BYTES).unwrap();
        assert_eq!(all.available_permits(), 3, "that much it has from the beginning");
        call.hold(UNIT_BYTES + 1).unwrap();
        call.hold(3 * UNIT_BYTES).unwrap();
        assert_eq!(all.available_permits(), 1);
        let other = Room::take(&all).unwrap();
        assert!(Room::take(&all).is_none());
        assert_eq!(call.hold(3 * UNIT_BYTES + 1).unwrap_err().code(), tonic::Code::Unavailable);
        drop(call);
        other.hold(4 * UNIT_BYTES).unwrap();
        drop(other);
        assert_eq!(all.available_permits(), 4);
    }
}
