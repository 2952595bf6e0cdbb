//! Keys on their way into a hot slot and home again.
//!
//! While a key is hot, its entry keeps its place in the table and says so; whatever needs the state takes it home first.

use std::sync::Arc;

use tollgate_core::algorithm::Meter;

use super::{Hashed, Shard, hash_entry, hash_of, place_of};
use crate::{entry::VersionId, hot::HotKey, table::Place};

impl Shard {
    /// Moves a key into a hot slot if it is the one that its pair of slots was last missed by.
    #[inline]
    pub(super) fn consider_hot(&mut self, index: usize, key: &Hashed<'_>, version: VersionId, meter: Meter) {
        let pair = self.hot.pair_in_shard(key.hash);
        let Some(missed) = self.missed.get_mut(pair) else { return };
        let Place(who) = key.place();
        if std::mem::replace(missed, who) != who {
            return;
        }
        self.table.get_mut(index).set_hot(true);
        if let Some(pushed_out) = self.hot.move_in(key.hash, HotKey { words: key.words, version, meter }) {
            self.put_home(pushed_out);
        }
    }

    /// Takes a key's state out of its hot slot and back into the table.
    #[cold]
    pub(super) fn take_home(&mut self, index: usize) {
        let entry = *self.table.get(index);
        let hash = hash_entry(&entry, &self.policies, &self.hasher);
        if let Some(meter) = self.hot.move_out(hash, entry.key(), entry.version()) {
            self.set_home(index, meter);
        }
    }

    pub(super) fn put_home(&mut self, key: HotKey) {
        let place = place_of(hash_of(&self.hasher, self.policies.id(key.version), key.words));
        let found = self.table.find(place, |entry| entry.is_short(key.words, key.version));
        if let Some(index) = found {
            self.set_home(index, key.meter);
        }
    }

    pub(super) fn set_home(&mut self, index: usize, meter: Meter) {
        let entry = self.table.get_mut(index);
        entry.set_meter(meter);
        entry.set_hot(false);
        // It may have been refused something while it was away; whoever is that busy is not to be pushed out.
        entry.mark_denied();
    }

    /// Takes every hot key home, so that a new version of a policy finds them.
    pub(crate) fn take_all_home(&mut self) {
        let hot = Arc::clone(&self.hot);
        hot.move_all_out(self.number).for_each(|key| self.put_home(key));
    }
}
