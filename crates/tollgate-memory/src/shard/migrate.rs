//! Migration of keys from superseded versions to the newest, a few at a time.
//!
//! A key is migrated when it is next asked about. Keys that are not asked about would keep their version alive, and every
//! later one with it; when many versions are kept for that reason, installations migrate such keys in passing.
//!
//! A key that is moved within the table while a pass is under way may be missed; the next pass finds it.

use tollgate_core::Micros;

use super::Shard;

impl Shard {
    /// Visits some slots and migrates the keys of superseded versions there. `work` bounds slots plus steps from one
    /// version to the next. Says how much of it is left once the end of the table is reached.
    pub(crate) fn migrate(&mut self, share: usize, work: usize, now: Micros) -> Option<usize> {
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
                self.take_home(index);
            }
            let Some(held) = self.versions.held(id).cloned() else { continue };
            let newest = held.head.newest();
            work = work.saturating_sub(held.node.steps(&newest));
            let keys = self.table.len();
            let subject = self.check_out_to(index, &held.head, &newest, now);
            self.check_in(index, subject, &newest.version.policy, now);
            if self.table.len() < keys {
                self.migrated = index; // another one may have moved up here
            }
        }
        if self.migrated >= self.table.slots() {
            self.migrated = 0;
            return Some(work);
        }
        None
    }

    /// How many slots the table has.
    pub(crate) fn slots(&self) -> usize {
        self.table.slots()
    }
}
