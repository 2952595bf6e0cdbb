//! The latest takes granted without the store, so that a refund is applied where the grant was counted.
//!
//! Bound: [`MAX_GRANTS`] takes. A refund of an older local grant goes to the store, which has been charged by then.

use std::collections::VecDeque;

use parking_lot::Mutex;
use ratekeeper_core::Timestamp;

/// Recent takes that were granted without the store, in order of their grant.
#[derive(Debug, Default)]
pub(super) struct RecentGrants(Mutex<VecDeque<GrantedTake>>);

#[derive(Debug)]
struct GrantedTake {
    name: Box<[u8]>,
    /// The time of the grant, wait included.
    at: Timestamp,
    grant: Grant,
}

/// How a take was granted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Grant {
    /// By rules with `on_store_failure: open`, which count nothing.
    Uncounted,
    /// By the local share; the number of the grant in the ledger.
    Local(u64),
}

impl RecentGrants {
    pub(super) fn add(&self, name: &[u8], at: Timestamp, grant: Grant) {
        let mut granted = self.0.lock();
        if granted.len() >= MAX_GRANTS {
            granted.pop_front();
        }
        granted.push_back(GrantedTake { name: name.into(), at, grant });
    }

    /// Removes and returns the grant of this key at this time.
    pub(super) fn take(&self, name: &[u8], at: Timestamp) -> Option<Grant> {
        let mut granted = self.0.lock();
        let found = granted.iter().rposition(|take| *take.name == *name && take.at == at)?;
        granted.remove(found).map(|take| take.grant)
    }
}

/// Waiters that may still cancel.
const MAX_GRANTS: usize = 4_096;
