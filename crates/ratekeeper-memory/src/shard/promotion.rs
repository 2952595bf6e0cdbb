//! Promotion of keys into hot slots, and demotion back into the table.
//!
//! The entry of a hot key stays in the table and is marked hot. Code that needs the state demotes the key first.

use ratekeeper_core::{
    ReadyRule, Timestamp,
    algorithm::{Algorithm, Meter, State},
};

use super::{HashedKey, Shard, hash_entry, table_hash};
use crate::{
    entry::Entry,
    hot::{HotKey, WantedKey},
    version_tag::{Serial, VersionTag},
};

impl Shard {
    /// Promotes a key if a slot of its set is free, or if the same key missed the set last time.
    #[inline]
    pub(super) fn consider_promotion(&mut self, index: usize, key: &HashedKey<'_>, version: Serial, meter: Meter) {
        let Some(set) = self.sets.get_mut(self.hot.set_in_shard(key.hash)) else { return };
        if !set.is_missed_again_by(key.table_hash()) && !set.has_room() {
            return;
        }
        self.promote(index, key, version, meter);
    }

    #[cold]
    fn promote(&mut self, index: usize, key: &HashedKey<'_>, version: Serial, meter: Meter) {
        self.table.get_mut(index).set_hot(true);
        match self.hot.insert(key.hash, HotKey { words: key.words, version, meter }) {
            Some(replaced) => self.return_replaced(replaced),
            None => self.sets[self.hot.set_in_shard(key.hash)].0 -= 1,
        }
    }

    /// Moves a key's state from its hot slot back into the entry.
    #[cold]
    pub(super) fn demote(&mut self, index: usize) {
        let key = self.wanted(index);
        if let Some(meter) = self.hot.remove(key) {
            self.sets[self.hot.set_in_shard(key.hash())].0 += 1;
            self.store_demoted(index, meter);
        }
    }

    /// Demotes a hot key that is back to its initial state and was not charged since `kept_since`, so that the sweep can
    /// remove it.
    pub(super) fn demote_if_reset(&mut self, index: usize, kept_since: Timestamp, now: Timestamp) {
        let entry = self.table.get(index);
        if !entry.is_hot() {
            return;
        }
        let Some(policy) = self.versions.policy(entry.version()) else { return };
        let is_kept = |meter: Meter| {
            let look = |rule: &ReadyRule| rule.algorithm().look(&State::Meter(meter), now);
            meter.at >= kept_since || policy.rules().iter().any(|rule| look(rule).reset_at > now)
        };
        // A hot state is only ever charged. If the older state in the entry is kept, so is the hot one.
        if entry.meter().is_none_or(is_kept) {
            return;
        }
        match self.hot.peek(self.wanted(index)) {
            Some(meter) if is_kept(meter) => self.table.get_mut(index).set_meter(meter),
            _ => self.demote(index),
        }
    }

    fn wanted(&self, index: usize) -> WantedKey {
        let entry = self.table.get(index);
        let tag = VersionTag::new(self.versions.serial(entry.version()));
        WantedKey::new(hash_entry(entry, &self.versions, &self.hasher), entry.key(), tag)
    }

    fn return_replaced(&mut self, key: HotKey) {
        // The entry of a hot key keeps its version number in use.
        let Some(version) = self.versions.find(key.version) else { return };
        let hash = self.hasher.hash(self.versions.policy_id(version), key.words);
        self.hot.forget(hash);
        let is_it = |entry: &Entry| entry.is_short(key.words) && entry.version() == version;
        let found = self.table.find(table_hash(hash), is_it);
        if let Some(index) = found {
            self.store_demoted(index, key.meter);
        }
    }

    fn store_demoted(&mut self, index: usize, meter: Meter) {
        let entry = self.table.get_mut(index);
        entry.set_meter(meter);
        entry.set_hot(false);
        // It may have been denied while hot. Such a busy key is not evicted.
        entry.mark_denied();
    }
}
