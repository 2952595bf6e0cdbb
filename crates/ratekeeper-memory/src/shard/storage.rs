//! Storage of key states: in the entry if the state is one meter without a reservation or block, else spilled to a slab.

use std::sync::Arc;

use ratekeeper_core::{Policy, Timestamp, algorithm::State, store_api::KeyState};

use super::{HashedKey, Shard, VersionRef, fits_entry, hash_entry, heap_bytes, table_hash};
use crate::{
    entry::Entry,
    policies::{Handle, PolicyHead, VersionNode},
};

impl Shard {
    pub(super) fn insert(
        &mut self,
        key: &HashedKey<'_>,
        target: &Arc<VersionNode>,
        key_state: KeyState,
        now: Timestamp,
    ) {
        let held = VersionRef { node: Arc::clone(target), head: Arc::clone(&key.policy.head) };
        let version = self.versions.enter(&held);
        let long_key = key.words.is_long().then(|| {
            self.heap += key.key.len();
            self.long_keys.insert(key.key.into())
        });
        let index = self.table.insert(key.table_hash(), Entry::new(key.words, long_key, version));
        self.keep(index, key_state, now);
    }

    /// Moves a key's state out of the store, migrated to the target version.
    pub(super) fn check_out(
        &mut self,
        index: usize,
        policy: &Handle,
        target: &Arc<VersionNode>,
        now: Timestamp,
    ) -> KeyState {
        self.check_out_to(index, &policy.head, target, now)
    }

    pub(super) fn check_out_to(
        &mut self,
        index: usize,
        head: &Arc<PolicyHead>,
        target: &Arc<VersionNode>,
        now: Timestamp,
    ) -> KeyState {
        let entry = *self.table.get(index);
        let key_state = match (entry.meter(), entry.spilled()) {
            (Some(meter), _) => KeyState { states: vec![State::Meter(meter)], ..KeyState::default() },
            (None, Some(place)) => {
                let key_state = self.key_states.get_mut(place).map(std::mem::take).unwrap_or_default();
                self.heap -= heap_bytes(&key_state);
                key_state
            }
            (None, None) => KeyState::default(),
        };
        let old = entry.version();
        if self.versions.serial(old) == target.version.serial {
            return key_state;
        }
        let migrated = match self.versions.held(old) {
            Some(held) => held.node.migrate(target, key_state, now),
            None => key_state,
        };
        let new = self.versions.enter(&VersionRef { node: Arc::clone(target), head: Arc::clone(head) });
        self.versions.leave(old);
        self.table.get_mut(index).set_version(new);
        migrated
    }

    /// Stores a key's state again, or removes the key if it is back to its initial state.
    pub(super) fn check_in(&mut self, index: usize, key_state: KeyState, policy: &Policy, now: Timestamp) {
        if policy.reset_at(&key_state, now) <= now {
            self.remove(index);
            return;
        }
        self.keep(index, key_state, now);
        // A list may have grown beyond the budget.
        self.evict_until(|shard| shard.bytes() <= shard.budget, now);
    }

    pub(super) fn keep(&mut self, index: usize, key_state: KeyState, now: Timestamp) {
        match fits_entry(&key_state, now).filter(|_| !self.table.get(index).version().is_wide()) {
            Some(meter) => {
                let place = self.table.get(index).spilled();
                place.and_then(|place| self.key_states.remove(place));
                self.table.get_mut(index).set_meter(meter);
            }
            None => self.spill(index, key_state),
        }
    }

    pub(super) fn spill(&mut self, index: usize, key_state: KeyState) {
        self.heap += heap_bytes(&key_state);
        match self.table.get(index).spilled() {
            Some(place) => {
                if let Some(stored) = self.key_states.get_mut(place) {
                    *stored = key_state;
                }
            }
            None => {
                let place = self.key_states.insert(key_state);
                self.table.get_mut(index).set_spilled(place);
            }
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        let Self { table, versions, hasher, .. } = self;
        let removed = table.remove(index, |entry| table_hash(hash_entry(entry, versions, hasher)));
        self.versions.leave(removed.version());
        if let Some(key_state) = removed.spilled().and_then(|place| self.key_states.remove(place)) {
            self.heap -= heap_bytes(&key_state);
        }
        if let Some(key) = removed.long_key().and_then(|place| self.long_keys.remove(place)) {
            self.heap -= key.len();
        }
    }

    pub(super) fn resize(&mut self, slots: usize) {
        let Self { table, versions, hasher, .. } = self;
        table.resize(slots, |entry| table_hash(hash_entry(entry, versions, hasher)));
        (self.hand, self.migrated) = (0, 0);
    }
}
