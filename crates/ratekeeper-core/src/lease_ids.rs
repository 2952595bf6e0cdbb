//! Lease ids, unique without coordination between processes.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::algorithm::LeaseId;

/// Hands out [`LeaseId`]s: consecutive numbers from a random start.
///
/// Processes that share a store start at different numbers, so their ids meet with negligible probability.
#[derive(Debug)]
pub struct LeaseIds(AtomicU64);

impl LeaseIds {
    /// Starts at a random number.
    pub fn random() -> Self {
        Self(AtomicU64::new(RandomState::new().build_hasher().finish()))
    }

    /// The next id.
    pub fn next_id(&self) -> LeaseId {
        LeaseId(self.0.fetch_add(1, Ordering::Relaxed) & MASK)
    }
}

/// Ids stay below 2^53, which the Lua scripts compute with exactly.
const MASK: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_consecutive_and_exact_in_lua() {
        let ids = LeaseIds(AtomicU64::new(MASK));
        assert_eq!((ids.next_id(), ids.next_id(), ids.next_id()), (LeaseId(MASK), LeaseId(0), LeaseId(1)));
        assert_ne!(LeaseIds::random().next_id(), LeaseIds::random().next_id());
    }
}
