//! Memory limit of gRPC calls: bounds the messages of all in-flight calls together.
//!
//! Every call reserves [`UNIT_BYTES`] when it starts. A longer message reserves more as it is received, until the call
//! is answered. Length alone does not refuse a message while memory is available: a client's header field may occur in
//! many descriptors, and proxies that let requests pass on errors would let that client bypass its limit.

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

use crate::listen::{ChargedRequestBody, OutOfBudget};

/// The memory that one call has reserved, returned when dropped.
#[derive(Debug)]
pub(super) struct CallMemory {
    /// One permit per [`UNIT_BYTES`].
    units: Arc<Semaphore>,
    reserved: Mutex<OwnedSemaphorePermit>,
}

impl CallMemory {
    /// Reserves one unit for a new call, if one is available.
    pub(super) fn take(units: &Arc<Semaphore>) -> Option<Arc<Self>> {
        let reserved = Arc::clone(units).try_acquire_owned().ok()?;
        Some(Arc::new(Self { units: Arc::clone(units), reserved: Mutex::new(reserved) }))
    }

    /// Grows the reservation to at least this many bytes.
    fn grow_to(&self, bytes: usize) -> Result<(), Status> {
        let mut reserved = self.reserved.lock();
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(reserved.num_permits());
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        if missing > 0 {
            let more = Arc::clone(&self.units).try_acquire_many_owned(missing);
            reserved.merge(more.map_err(|_| too_many_calls())?);
        }
        Ok(())
    }
}

/// The status of a call for which no memory is available.
pub(super) fn too_many_calls() -> Status {
    Status::unavailable("too many calls are in flight; retry later")
}

fn too_long() -> Status {
    Status::out_of_range(format!("a call has one message, of {MAX_MESSAGE_BYTES} bytes at most"))
}

/// The body of a call, which reserves memory as it is received.
pub(super) struct MeteredBody {
    body: ChargedRequestBody,
    received: usize,
    memory: Arc<CallMemory>,
}

impl MeteredBody {
    pub(super) fn new(body: ChargedRequestBody, memory: Arc<CallMemory>) -> Self {
        Self { body, received: 0, memory }
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| if error.is::<OutOfBudget>() { too_many_calls().into() } else { error })?;
        if let Some(data) = frame.data_ref() {
            self.received += data.len();
            // A call has one message; several could reserve all memory.
            if self.received > MAX_MESSAGE_BYTES + MESSAGE_PREFIX_BYTES {
                return Poll::Ready(Some(Err(too_long().into())));
            }
            if self.received > UNIT_BYTES {
                self.memory.grow_to(self.received)?;
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

impl fmt::Debug for MeteredBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredBody").field("received", &self.received).finish_non_exhaustive()
    }
}

/// Reserved for every call; few messages are longer.
pub(super) const UNIT_BYTES: usize = 64 << 10;

/// The longest message. Envoy accepts 60 KiB of header fields from a client by default, and all of them may occur in
/// each of the 64 descriptors of a request.
pub(super) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// gRPC's prefix of each message: compression flag and length.
const MESSAGE_PREFIX_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_reserves_several_units_until_it_is_answered() {
        let units = Arc::new(Semaphore::new(4));
        let call = CallMemory::take(&units).unwrap();
        call.grow_to(UNIT_BYTES).unwrap();
        assert_eq!(units.available_permits(), 3, "reserved from the start");
        call.grow_to(UNIT_BYTES + 1).unwrap();
        call.grow_to(3 * UNIT_BYTES).unwrap();
        assert_eq!(units.available_permits(), 1);
        let other = CallMemory::take(&units).unwrap();
        assert!(CallMemory::take(&units).is_none());
        assert_eq!(call.grow_to(3 * UNIT_BYTES + 1).unwrap_err().code(), tonic::Code::Unavailable);
        drop(call);
        other.grow_to(4 * UNIT_BYTES).unwrap();
        drop(other);
        assert_eq!(units.available_permits(), 4);
    }
}
