//! Reservations that are refunded when they expire: the queue of one process, earliest first.
//!
//! A store asks with every request whether one is due, which is one atomic load, and then ends those that are. Whether a
//! reservation was finished meanwhile is in its [record](crate::store_api::RequestRecord), not here.
//!
//! Bound: [`MAX_EXPIRING`] reservations.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{request_id::RequestId, store::StoreError, time::Timestamp};

/// Reservations to be refunded, by the time at which they expire.
#[derive(Debug)]
pub struct Expiring<P> {
    /// When the first expires, in microseconds; `u64::MAX` if there is none.
    next: AtomicU64,
    queue: Mutex<Queue<P>>,
}

#[derive(Debug)]
struct Queue<P> {
    by_time: BTreeMap<(Timestamp, u64), OpenReservation<P>>,
    sequence: u64,
}

/// A reservation that was not finished when it was queued.
#[derive(Clone, Debug)]
pub struct OpenReservation<P> {
    /// Its policy.
    pub policy: P,
    /// Its key.
    pub key: Box<str>,
    /// Its id.
    pub id: RequestId,
}

impl<P> Default for Expiring<P> {
    fn default() -> Self {
        let queue = Queue { by_time: BTreeMap::new(), sequence: 0 };
        Self { next: AtomicU64::new(u64::MAX), queue: Mutex::new(queue) }
    }
}

impl<P> Expiring<P> {
    /// Whether there are any.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next.load(Relaxed) == u64::MAX
    }

    /// Whether one has expired by this time.
    #[inline(always)]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.next.load(Relaxed) <= now.as_micros()
    }

    /// Whether there is no room for `more`.
    pub fn is_full_for(&self, more: usize) -> Result<(), StoreError> {
        match self.lock().by_time.len() + more > MAX_EXPIRING {
            true => Err(StoreError::TooManyReservations { max: MAX_EXPIRING }),
            false => Ok(()),
        }
    }

    /// Adds a reservation that expires then.
    pub fn add(&self, expires: Timestamp, open: OpenReservation<P>) {
        let mut queue = self.lock();
        queue.sequence += 1;
        let place = (expires, queue.sequence);
        queue.by_time.insert(place, open);
        self.note_next(&queue);
    }

    /// Removes and returns at most `most` that have expired, the earliest first.
    pub fn take_due(&self, most: usize, now: Timestamp) -> Vec<OpenReservation<P>> {
        let mut queue = self.lock();
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = queue.by_time.first_entry().filter(|first| first.key().0 <= now)
        {
            due.push(first.remove());
        }
        self.note_next(&queue);
        due
    }

    fn note_next(&self, queue: &Queue<P>) {
        self.next.store(queue.by_time.first_key_value().map_or(u64::MAX, |(first, _)| first.0.as_micros()), Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue<P>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some ten megabytes.
pub const MAX_EXPIRING: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn the_earliest_is_due_first_and_once() {
        let (expiring, start) = (Expiring::<u8>::default(), Timestamp::from_secs(1));
        assert!(expiring.is_empty() && !expiring.is_due(start));
        for seconds in [3, 1, 2] {
            let open = OpenReservation { policy: 0, key: "k".into(), id: RequestId::of(seconds.to_string()) };
            expiring.add(start + Span::from_secs(seconds), open);
        }
        assert!(!expiring.is_due(start + Span::SECOND - Span::MICROSECOND));
        let due = |most, seconds| {
            let due = expiring.take_due(most, start + Span::from_secs(seconds));
            due.into_iter().map(|open| open.id).collect::<Vec<_>>()
        };
        assert_eq!(due(9, 2), [RequestId::of("1"), RequestId::of("2")]);
        assert_eq!((due(9, 2), due(0, 3), due(1, 3)), (vec![], vec![], vec![RequestId::of("3")]));
        assert!(expiring.is_empty());
    }
}
