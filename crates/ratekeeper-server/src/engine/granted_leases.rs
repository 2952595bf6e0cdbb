//! Times of granted leases, from which the engine learns how long leases are held.
//!
//! A take under a concurrency rule notes its lease; the release finds the time and forgets it. Lease ids of this process
//! are consecutive, so the table has the latest [`SLOTS`] of them: a new lease replaces the one that many before it. Leases
//! that another process granted, or that were replaced, are not observed.
//!
//! Bound: 1 MiB, allocated with the first lease.

use std::sync::OnceLock;

use parking_lot::Mutex;
use ratekeeper_core::{LeaseId, Timestamp};

/// When leases were granted, by id.
#[derive(Debug, Default)]
pub(super) struct GrantedLeases {
    slots: OnceLock<Box<[Mutex<LeaseSlot>]>>,
}

/// A lease and the time it began; `None` if it was released.
type LeaseSlot = Option<(LeaseId, Timestamp)>;

impl GrantedLeases {
    /// Notes a lease that begins at this time.
    pub(super) fn note(&self, lease: LeaseId, at: Timestamp) {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| Mutex::new(None)).collect());
        *slots[place(lease)].lock() = Some((lease, at));
    }

    /// When the lease began. Forgets it, so that a second release is not observed.
    pub(super) fn take(&self, lease: LeaseId) -> Option<Timestamp> {
        let slot = &self.slots.get()?[place(lease)];
        slot.lock().take_if(|(noted, _)| *noted == lease).map(|(_, at)| at)
    }
}

fn place(lease: LeaseId) -> usize {
    (lease.0 % SLOTS) as usize
}

/// Leases that are remembered.
const SLOTS: u64 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_observed_once() {
        let leases = GrantedLeases::default();
        assert_eq!(leases.take(LeaseId(7)), None);
        leases.note(LeaseId(7), Timestamp::from_secs(1));
        assert_eq!(leases.take(LeaseId(7 + SLOTS)), None, "another lease of the same slot");
        assert_eq!(leases.take(LeaseId(7)), Some(Timestamp::from_secs(1)));
        assert_eq!(leases.take(LeaseId(7)), None);
    }

    #[test]
    fn a_lease_that_was_replaced_is_not_observed() {
        let leases = GrantedLeases::default();
        leases.note(LeaseId(7), Timestamp::from_secs(1));
        leases.note(LeaseId(7 + SLOTS), Timestamp::from_secs(2));
        assert_eq!(leases.take(LeaseId(7)), None);
        assert_eq!(leases.take(LeaseId(7 + SLOTS)), Some(Timestamp::from_secs(2)));
    }
}
