//! Keys on their way into a hot slot and home again.
//!
//! While a key is hot, its entry keeps its place in the table and says so; whatever needs the state takes it home first.

use tollgate_core::{
    Micros, ReadyRule,
    algorithm::{Algorithm, Meter, State},
};

use super::{Hashed, Shard, hash_entry, place_of};
use crate::{
    entry::Entry,
    hot::{HotKey, Tag, WantedKey},
    policies::Serial,
};

impl Shard {
    /// Moves a key into a hot slot if one is free, or if the key is the one that its set of slots was last missed by.
    #[inline]
    pub(super) fn consider_hot(&mut self, index: usize, key: &Hashed<'_>, version: Serial, meter: Meter) {
        let Some(set) = self.sets.get_mut(self.hot.set_in_shard(key.hash)) else { return };
        if !set.is_missed_again_by(key.place()) && !set.has_room() {
            return;
        }
        self.move_in(index, key, version, meter);
    }

    #[cold]
    fn move_in(&mut self, index: usize, key: &Hashed<'_>, version: Serial, meter: Meter) {
        self.table.get_mut(index).set_hot(true);
        match self.hot.move_in(key.hash, HotKey { words: key.words, version, meter }) {
            Some(pushed_out) => self.put_home(pushed_out),
            None => self.sets[self.hot.set_in_shard(key.hash)].0 -= 1,
        }
    }

    /// Takes a key's state out of its hot slot and back into the table.
    #[cold]
    pub(super) fn take_home(&mut self, index: usize) {
        let key = self.wanted(index);
        if let Some(meter) = self.hot.move_out(key) {
            self.sets[self.hot.set_in_shard(key.hash())].0 += 1;
            self.set_home(index, meter);
        }
    }

    /// Takes a key home that has come to rest where it is, so that it can be let go of.
    pub(super) fn take_home_if_rested(&mut self, index: usize, now: Micros) {
        let entry = self.table.get(index);
        if !entry.is_hot() {
            return;
        }
        let Some(policy) = self.versions.policy(entry.version()) else { return };
        let rests = |meter| {
            let look = |rule: &ReadyRule| rule.limiting().look(&State::Meter(meter), now);
            policy.rules().iter().all(|rule| look(rule).rests_at <= now)
        };
        // Where it is, a key is only ever charged. So if it would not rest as it was when it left, it does not now.
        if !entry.meter().is_some_and(rests) {
            return;
        }
        match self.hot.look_at(self.wanted(index)) {
            Some(meter) if !rests(meter) => self.table.get_mut(index).set_meter(meter),
            _ => self.take_home(index),
        }
    }

    fn wanted(&self, index: usize) -> WantedKey {
        let entry = self.table.get(index);
        let tag = Tag::new(self.versions.serial(entry.version()));
        WantedKey::new(hash_entry(entry, &self.versions, &self.hasher), entry.key(), tag)
    }

    fn put_home(&mut self, key: HotKey) {
        // Its entry keeps its version in use while it is hot.
        let Some(version) = self.versions.find(key.version) else { return };
        let hash = self.hasher.hash(self.versions.policy_id(version), key.words);
        self.hot.has_left(hash);
        let is_it = |entry: &Entry| entry.is_short(key.words) && entry.version() == version;
        let found = self.table.find(place_of(hash), is_it);
        if let Some(index) = found {
            self.set_home(index, key.meter);
        }
    }

    fn set_home(&mut self, index: usize, meter: Meter) {
        let entry = self.table.get_mut(index);
        entry.set_meter(meter);
        entry.set_hot(false);
        // It may have been refused something while it was away; whoever is that busy is not to be pushed out.
        entry.mark_denied();
    }
}
