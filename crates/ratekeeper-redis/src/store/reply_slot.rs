//! Reply slot: where the decision of a waiting request is written, and its caller reads it.
//!
//! A oneshot channel that separates writing from waking: a merged call writes all its replies and then wakes all its
//! callers, so that the threads that share them are woken once rather than for every few of them.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Creates both ends of a slot.
pub(super) fn reply_slot<T>() -> (SlotSender<T>, SlotReceiver<T>) {
    let slot = Arc::new(Mutex::new(Slot::Empty(None)));
    (SlotSender(Some(Arc::clone(&slot))), SlotReceiver(slot))
}

#[derive(Debug)]
enum Slot<T> {
    /// No reply yet; with the waker of the caller once it has been polled.
    Empty(Option<Waker>),
    Full(T),
    /// The other end was dropped, or the reply was read.
    Closed,
}

/// Writes the reply. If it is dropped before, the receiver resolves to `None`.
#[derive(Debug)]
pub(super) struct SlotSender<T>(Option<Arc<Mutex<Slot<T>>>>);

/// Resolves to the reply.
#[derive(Debug)]
pub(super) struct SlotReceiver<T>(Arc<Mutex<Slot<T>>>);

impl<T> SlotSender<T> {
    /// Whether the caller has dropped its end.
    pub(super) fn is_closed(&self) -> bool {
        self.0.as_ref().is_none_or(|slot| Arc::strong_count(slot) == 1)
    }

    /// Writes the reply. Returns the waker of the caller, to be woken soon, or the reply if the caller has dropped its end.
    pub(super) fn write(mut self, reply: T) -> Result<Option<Waker>, T> {
        let Some(slot) = self.0.take() else { return Err(reply) };
        let mut slot = slot.lock();
        match &mut *slot {
            Slot::Empty(waker) => {
                let waker = waker.take();
                *slot = Slot::Full(reply);
                Ok(waker)
            }
            Slot::Full(_) | Slot::Closed => Err(reply),
        }
    }

    /// Writes the reply and wakes the caller.
    pub(super) fn send(self, reply: T) {
        if let Ok(Some(waker)) = self.write(reply) {
            waker.wake();
        }
    }
}

impl<T> Drop for SlotSender<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take()
            && let Slot::Empty(Some(waker)) = mem::replace(&mut *slot.lock(), Slot::Closed)
        {
            waker.wake();
        }
    }
}

impl<T> Future for SlotReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock();
        if let Slot::Empty(waker) = &mut *slot {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match mem::replace(&mut *slot, Slot::Closed) {
            Slot::Full(reply) => Poll::Ready(Some(reply)),
            Slot::Empty(_) | Slot::Closed => Poll::Ready(None),
        }
    }
}

impl<T> Drop for SlotReceiver<T> {
    fn drop(&mut self) {
        // Without a sender nothing is written any more.
        if Arc::strong_count(&self.0) > 1 {
            let old = mem::replace(&mut *self.0.lock(), Slot::Closed);
            drop(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll<T>(receiver: &mut SlotReceiver<T>) -> Poll<Option<T>> {
        Pin::new(receiver).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_reply_is_read_once() {
        let (sender, mut receiver) = reply_slot();
        assert_eq!(poll(&mut receiver), Poll::Pending);
        assert!(matches!(sender.write(1), Ok(Some(_))), "the caller is to be woken");
        assert_eq!(poll(&mut receiver), Poll::Ready(Some(1)));
        assert_eq!(poll(&mut receiver), Poll::Ready(None));
    }

    #[test]
    fn a_reply_without_a_caller_is_returned() {
        let (sender, receiver) = reply_slot();
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
        assert!(matches!(sender.write(1), Err(1)));
    }

    #[test]
    fn a_dropped_sender_ends_the_wait() {
        let (sender, mut receiver) = reply_slot::<u8>();
        assert_eq!(poll(&mut receiver), Poll::Pending);
        drop(sender);
        assert_eq!(poll(&mut receiver), Poll::Ready(None));
    }
}
