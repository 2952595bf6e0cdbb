//! Where a key's state is kept: in its entry if it is one meter that nobody waits for, else beside the table.

use std::sync::Arc;

use tollgate_core::{Micros, Policy, Subject, algorithm::State};

use super::{Hashed, Held, Shard, fits_entry, hash_entry, heap_bytes, place_of};
use crate::{
    entry::Entry,
    policies::{Handle, PolicyHead, VersionNode},
};

impl Shard {
    pub(super) fn insert(&mut self, key: &Hashed<'_>, meant: &Arc<VersionNode>, subject: Subject, now: Micros) {
        let held = Held { node: Arc::clone(meant), head: Arc::clone(&key.policy.head) };
        let version = self.versions.enter(&held);
        let long_key = key.words.is_long().then(|| {
            self.heap += key.key.len();
            self.long_keys.insert(key.key.into())
        });
        let index = self.table.insert(key.place(), Entry::new(key.words, long_key, version));
        self.keep(index, subject, now);
    }

    /// Takes a key's state out of wherever it is, brought to the version that is meant.
    pub(super) fn check_out(
        &mut self,
        index: usize,
        policy: &Handle,
        meant: &Arc<VersionNode>,
        now: Micros,
    ) -> Subject {
        self.check_out_to(index, &policy.head, meant, now)
    }

    pub(super) fn check_out_to(
        &mut self,
        index: usize,
        head: &Arc<PolicyHead>,
        meant: &Arc<VersionNode>,
        now: Micros,
    ) -> Subject {
        let entry = *self.table.get(index);
        let subject = match (entry.meter(), entry.beside()) {
            (Some(meter), _) => Subject { states: vec![State::Meter(meter)], ..Subject::default() },
            (None, Some(place)) => {
                let subject = self.subjects.get_mut(place).map(std::mem::take).unwrap_or_default();
                self.heap -= heap_bytes(&subject);
                subject
            }
            (None, None) => Subject::default(),
        };
        let old = entry.version();
        if self.versions.serial(old) == meant.version.serial {
            return subject;
        }
        let migrated = match self.versions.held(old) {
            Some(held) => held.node.migrate(meant, subject, now),
            None => subject,
        };
        let new = self.versions.enter(&Held { node: Arc::clone(meant), head: Arc::clone(head) });
        self.versions.leave(old);
        self.table.get_mut(index).set_version(new);
        migrated
    }

    /// Puts a key's state back, or lets the key go if it is as good as new.
    pub(super) fn check_in(&mut self, index: usize, subject: Subject, policy: &Policy, now: Micros) {
        if policy.rests_at(&subject, now) <= now {
            self.remove(index);
            return;
        }
        self.keep(index, subject, now);
        // A list may have grown: others make room for it if they can.
        self.evict_until(|shard| shard.bytes() <= shard.budget, now);
    }

    pub(super) fn keep(&mut self, index: usize, subject: Subject, now: Micros) {
        match fits_entry(&subject, now).filter(|_| !self.table.get(index).version().is_wide()) {
            Some(meter) => {
                let place = self.table.get(index).beside();
                place.and_then(|place| self.subjects.remove(place));
                self.table.get_mut(index).set_meter(meter);
            }
            None => self.put_beside(index, subject),
        }
    }

    pub(super) fn put_beside(&mut self, index: usize, subject: Subject) {
        self.heap += heap_bytes(&subject);
        match self.table.get(index).beside() {
            Some(place) => {
                if let Some(stored) = self.subjects.get_mut(place) {
                    *stored = subject;
                }
            }
            None => {
                let place = self.subjects.insert(subject);
                self.table.get_mut(index).set_beside(place);
            }
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        let Self { table, versions, hasher, .. } = self;
        let removed = table.remove(index, |entry| place_of(hash_entry(entry, versions, hasher)));
        self.versions.leave(removed.version());
        if let Some(subject) = removed.beside().and_then(|place| self.subjects.remove(place)) {
            self.heap -= heap_bytes(&subject);
        }
        if let Some(key) = removed.long_key().and_then(|place| self.long_keys.remove(place)) {
            self.heap -= key.len();
        }
    }

    pub(super) fn resize(&mut self, slots: usize) {
        let Self { table, versions, hasher, .. } = self;
        table.resize(slots, |entry| place_of(hash_entry(entry, versions, hasher)));
        (self.hand, self.migrated) = (0, 0);
    }
}
