//! Migration of keys from superseded versions to the newest, a few at a time.
//!
//! A key is migrated at its next request. Keys without requests would keep their version alive, and every later one with
//! it. While many superseded versions are alive, each installation of a policy migrates some of those keys.
//!
//! A key that moves within the table during a pass may be missed; the next pass finds it.

use ratekeeper_core::Timestamp;

use super::Shard;

impl Shard {
    /// Visits up to `share` slots and migrates the keys of superseded versions. `work` bounds slots visited plus migration
    /// steps. Returns the work left if the pass has reached the end of the table.
    pub(crate) fn migrate(&mut self, share: usize, work: usize, now: Timestamp) -> Option<usize> {
        self.migrate_overflow(now);
        let (mut slots, mut work) = (share.min(self.table.slots()), work);
        while slots > 0 && work > 0 {
            let index = self.migrated;
            if index >= self.table.slots() {
                self.migrated = 0;
                return Some(work);
            }
            (slots, work, self.migrated) = (slots - 1, work - 1, index + 1);
            let entry = self.table.get(index);
            let id = entry.version();
            if entry.is_empty() || !self.versions.is_superseded(id) {
                continue;
            }
            if entry.is_hot() {
                self.demote(index);
            }
            let Some(held) = self.versions.held(id).cloned() else { continue };
            let newest = held.head.newest();
            work = work.saturating_sub(held.node.steps(&newest));
            let keys = self.table.len();
            let key_state = self.check_out_to(index, &held.head, &newest, now);
            self.check_in(index, key_state, &newest.version.policy, now);
            if self.table.len() < keys {
                self.migrated = index; // a later entry may have moved up here
            }
        }
        if self.migrated >= self.table.slots() {
            self.migrated = 0;
            return Some(work);
        }
        None
    }

    /// Slots of the table.
    pub(crate) fn slots(&self) -> usize {
        self.table.slots()
    }
}
