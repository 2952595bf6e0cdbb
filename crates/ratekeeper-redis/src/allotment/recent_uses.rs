//! The last uses that no call has reported: their times by the store's clock, and their costs. A refund of one of them
//! returns to the holder.

use ratekeeper_core::Timestamp;

/// A ring of [`RECENT`] uses.
#[derive(Debug, Default)]
pub(crate) struct RecentUses {
    uses: [(Timestamp, u64); RECENT],
    next: usize,
}

impl RecentUses {
    pub(crate) fn add(&mut self, at: Timestamp, cost: u64) {
        self.uses[self.next % RECENT] = (at, cost);
        self.next = self.next.wrapping_add(1);
    }

    /// Removes a use. `false` if it is not known.
    pub(crate) fn remove(&mut self, at: Timestamp, cost: u64) -> bool {
        let place = self.uses.iter().position(|used| *used == (at, cost) && cost > 0);
        if let Some(place) = place {
            self.uses[place] = Default::default();
        }
        place.is_some()
    }
}

/// Uses that can be returned without the store.
pub(crate) const RECENT: usize = 8;
