//! Open-addressing hash table with linear probing and backward-shift deletion.
//!
//! With a million keys a decision takes as long as its cache misses, so key and state share one cache line and probing
//! continues in the next one. (A separate index, as general maps have it, costs one more miss.) The table is at most
//! four fifths full and grows by a quarter, so a key takes 40 to 50 bytes; growing copies one shard of many.
//!
//! Removal moves later entries up into the gap, so there are no tombstones and probes stay short.

use crate::entry::Entry;

/// The entries of one shard.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    taken: usize,
}

/// The 32 bits of a key's hash that select its first slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TableHash(pub(crate) u32);

impl Table {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), taken: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    pub(crate) fn get(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Entry {
        &mut self.entries[index]
    }

    /// The first entry of the probe sequence that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: TableHash, mut is_it: impl FnMut(&Entry) -> bool) -> Option<usize> {
        let slots = self.entries.len();
        let mut index = first_slot(hash, slots);
        // At most four fifths are occupied, so an empty slot ends the loop.
        while let Some(entry) = self.entries.get(index) {
            if entry.is_empty() {
                return None;
            }
            if is_it(entry) {
                return Some(index);
            }
            index = if index + 1 == slots { 0 } else { index + 1 };
        }
        None
    }

    /// Whether one more entry would exceed the load factor.
    pub(crate) fn is_full(&self) -> bool {
        (self.taken + 1) * 5 > self.entries.len() * 4
    }

    /// Slots after growing.
    pub(crate) fn grown(&self) -> usize {
        (self.entries.len() + self.entries.len() / 4).max(SMALLEST)
    }

    /// Rehashes into `slots` slots, more than are occupied.
    pub(crate) fn resize(&mut self, slots: usize, hash: impl Fn(&Entry) -> TableHash) {
        let old = std::mem::replace(&mut self.entries, vec![Entry::EMPTY; slots]);
        self.taken = 0;
        for entry in old.into_iter().filter(|entry| !entry.is_empty()) {
            self.insert(hash(&entry), entry);
        }
    }

    /// Inserts an entry that is not in the table. The table must not be full.
    pub(crate) fn insert(&mut self, hash: TableHash, entry: Entry) -> usize {
        let slots = self.entries.len();
        let mut index = first_slot(hash, slots);
        while !self.entries[index].is_empty() {
            index = if index + 1 == slots { 0 } else { index + 1 };
        }
        self.entries[index] = entry;
        self.taken += 1;
        index
    }

    /// Removes an entry and moves later entries of its probe sequence up.
    pub(crate) fn remove(&mut self, index: usize, hash: impl Fn(&Entry) -> TableHash) -> Entry {
        let slots = self.entries.len();
        let removed = self.entries[index];
        let (mut gap, mut next) = (index, index);
        loop {
            next = if next + 1 == slots { 0 } else { next + 1 };
            let entry = self.entries[next];
            if entry.is_empty() {
                break;
            }
            // It may move if the gap lies between its first slot and its present one.
            let wanted = first_slot(hash(&entry), slots);
            let distance = |from: usize, to: usize| if to >= from { to - from } else { to + slots - from };
            if distance(wanted, next) >= distance(gap, next) {
                self.entries[gap] = entry;
                gap = next;
            }
        }
        self.entries[gap] = Entry::EMPTY;
        self.taken -= 1;
        removed
    }
}

/// Maps 32 hash bits to any number of slots without a division.
#[inline]
fn first_slot(TableHash(hash): TableHash, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

/// Slots of the first table.
const SMALLEST: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::entry::{KeyWords, VersionId};

    /// Hashes with many collisions, some at the very end so that probing wraps around.
    fn hash(key: u64) -> TableHash {
        let key = u32::try_from(key).unwrap();
        match key % 3 {
            0 => TableHash(u32::MAX),
            1 => TableHash(key.wrapping_mul(0x9E37_79B9)),
            _ => TableHash((key % 50) << 20),
        }
    }

    fn words(key: u64) -> KeyWords {
        KeyWords::of(&key.to_le_bytes(), || unreachable!("short"))
    }

    fn key_of(entry: &Entry) -> u64 {
        entry.key().both()[0]
    }

    #[test]
    fn behaves_like_a_map_through_growth_and_removal() {
        let mut table = Table::new();
        let mut map: HashMap<u64, u32> = HashMap::new();
        let mut random = 7_u64;
        for step in 0..30_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = random >> 33 & 0x1FF;
            let found = table.find(hash(key), |entry| entry.may_be(words(key)));
            assert_eq!(found.map(|index| table.get(index).version().0), map.get(&key).copied());
            match found {
                Some(index) if random >> 20 & 1 == 0 => {
                    table.remove(index, |entry| hash(key_of(entry)));
                    map.remove(&key);
                }
                Some(_) => {}
                None => {
                    if table.is_full() {
                        table.resize(table.grown(), |entry| hash(key_of(entry)));
                    }
                    table.insert(hash(key), Entry::new(words(key), None, VersionId(step)));
                    map.insert(key, step);
                }
            }
            assert_eq!(table.len(), map.len());
        }
        for (key, version) in map {
            let index = table.find(hash(key), |entry| entry.may_be(words(key))).unwrap();
            assert_eq!(table.get(index).version().0, version);
        }
    }
}
