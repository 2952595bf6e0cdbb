//! Backoff times of keys, as peers asked for with `Retry-After`.
//!
//! Bound: `MAX_KEYS`. Expired entries are removed when they are read or when the map is full.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::Instant;

/// Until when requests with a key are held back.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    until: Mutex<HashMap<String, Instant>>,
    /// Avoids the lock while the map is empty.
    any: AtomicBool,
}

impl Backoff {
    /// The end of the backoff of this key, if it is in the future.
    pub(super) fn until(&self, key: &str) -> Option<Instant> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut ends = self.lock();
        let until = *ends.get(key)?;
        if until > Instant::now() {
            return Some(until);
        }
        ends.remove(key);
        self.any.store(!ends.is_empty(), Ordering::Release);
        None
    }

    /// Begins a backoff, or extends it; the later end wins.
    pub(super) fn set(&self, key: &str, until: Instant) {
        let mut ends = self.lock();
        if ends.len() >= MAX_KEYS && !ends.contains_key(key) {
            let now = Instant::now();
            ends.retain(|_, until| *until > now);
            if ends.len() >= MAX_KEYS {
                return; // The block in the store holds requests back.
            }
        }
        ends.entry(key.to_owned()).and_modify(|old| *old = until.max(*old)).or_insert(until);
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys are usually peers, so that many at once are not expected.
const MAX_KEYS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_backoff_expires_and_the_later_end_wins() {
        let backoff = Backoff::default();
        let now = Instant::now();
        assert_eq!(backoff.until("a"), None);
        backoff.set("a", now + Duration::from_secs(5));
        backoff.set("a", now + Duration::from_secs(2));
        assert_eq!(backoff.until("a"), Some(now + Duration::from_secs(5)));
        assert_eq!(backoff.until("b"), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(backoff.until("a"), None);
        assert!(!backoff.any.load(Ordering::Acquire));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_keys_is_bounded() {
        let backoff = Backoff::default();
        let soon = Instant::now() + Duration::from_secs(5);
        for peer in 0..MAX_KEYS + 100 {
            backoff.set(&peer.to_string(), soon);
        }
        assert_eq!(backoff.lock().len(), MAX_KEYS);
        tokio::time::advance(Duration::from_secs(5)).await;
        backoff.set("one more", Instant::now() + Duration::from_secs(1));
        assert_eq!(backoff.lock().len(), 1);
    }
}
