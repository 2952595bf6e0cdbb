//! Keys that peers have asked us to leave alone for a while.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Holds {
    until: Mutex<HashMap<String, Instant>>,
    /// Spares everybody the lock while no peer has complained.
    any: AtomicBool,
}

impl Holds {
    /// Until when this key is to be left alone, if that lies ahead.
    pub(super) fn until(&self, key: &str) -> Option<Instant> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut holds = self.lock();
        let until = *holds.get(key)?;
        if until > Instant::now() {
            return Some(until);
        }
        holds.remove(key);
        self.any.store(!holds.is_empty(), Ordering::Release);
        None
    }

    /// Leaves it alone until then, or longer if that was asked before.
    pub(super) fn hold(&self, key: &str, until: Instant) {
        let mut holds = self.lock();
        if holds.len() >= MAX_KEYS && !holds.contains_key(key) {
            let now = Instant::now();
            holds.retain(|_, until| *until > now);
            if holds.len() >= MAX_KEYS {
                return; // The block in the store still stands.
            }
        }
        holds.entry(key.to_owned()).and_modify(|old| *old = until.max(*old)).or_insert(until);
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys are peers here, not people; this many complaining at once is a sign of something else.
const MAX_KEYS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hold_ends_by_itself_and_the_longer_one_stands() {
        let holds = Holds::default();
        let now = Instant::now();
        assert_eq!(holds.until("a"), None);
        holds.hold("a", now + Duration::from_secs(5));
        holds.hold("a", now + Duration::from_secs(2));
        assert_eq!(holds.until("a"), Some(now + Duration::from_secs(5)));
        assert_eq!(holds.until("b"), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(holds.until("a"), None);
        assert!(!holds.any.load(Ordering::Acquire));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_complaining_peers_takes_bounded_room() {
        let holds = Holds::default();
        let soon = Instant::now() + Duration::from_secs(5);
        for peer in 0..MAX_KEYS + 100 {
            holds.hold(&peer.to_string(), soon);
        }
        assert_eq!(holds.lock().len(), MAX_KEYS);
        tokio::time::advance(Duration::from_secs(5)).await;
        holds.hold("one more", Instant::now() + Duration::from_secs(1));
        assert_eq!(holds.lock().len(), 1);
    }
}
