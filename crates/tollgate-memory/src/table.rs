//! An open table of entries: one hash, one place to look, and the next one if that is taken.
//!
//! With a million keys a decision is as fast as memory, so the key and its state stand in one cache line and the
//! search goes on in the neighbouring one. (An index of numbers pointing to entries, as general maps have it, costs
//! one miss more.) The table is at most four fifths full, and grows by a quarter, so that a key takes 40 to 50 bytes
//! and never more; growing copies one shard of many, not all keys.
//!
//! Removing closes the gap by moving later entries up, so there are no tombstones and a search always ends soon.

use crate::entry::Entry;

/// The entries of one shard.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    taken: usize,
}

/// The part of a hash that says where to look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place(pub(crate) u32);

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

    /// The first entry from `place` on that `is_it`, unless an empty slot comes before.
    #[inline]
    pub(crate) fn find(&self, place: Place, mut is_it: impl FnMut(&Entry) -> bool) -> Option<usize> {
        let slots = self.entries.len();
        let mut index = home(place, slots);
        // At most four fifths are taken, so an empty slot ends this.
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

    /// Whether one more would make it too full.
    pub(crate) fn is_full(&self) -> bool {
        (self.taken + 1) * 5 > self.entries.len() * 4
    }

    /// How many slots it would have after growing.
    pub(crate) fn grown(&self) -> usize {
        (self.entries.len() + self.entries.len() / 4).max(SMALLEST)
    }

    /// Moves everything to a table of so many slots, more than are taken.
    pub(crate) fn resize(&mut self, slots: usize, place: impl Fn(&Entry) -> Place) {
        let old = std::mem::replace(&mut self.entries, vec![Entry::EMPTY; slots]);
        self.taken = 0;
        for entry in old.into_iter().filter(|entry| !entry.is_empty()) {
            self.insert(place(&entry), entry);
        }
    }

    /// Puts an entry that is not there yet. The caller has seen to it that the table is not full.
    pub(crate) fn insert(&mut self, place: Place, entry: Entry) -> usize {
        let slots = self.entries.len();
        let mut index = home(place, slots);
        while !self.entries[index].is_empty() {
            index = if index + 1 == slots { 0 } else { index + 1 };
        }
        self.entries[index] = entry;
        self.taken += 1;
        index
    }

    /// Takes an entry out and moves up those behind it that would rather stand there.
    pub(crate) fn remove(&mut self, index: usize, place: impl Fn(&Entry) -> Place) -> Entry {
        let slots = self.entries.len();
        let removed = self.entries[index];
        let (mut gap, mut next) = (index, index);
        loop {
            next = if next + 1 == slots { 0 } else { next + 1 };
            let entry = self.entries[next];
            if entry.is_empty() {
                break;
            }
            // It may move if the gap lies between where it would rather be and where it is.
            let wanted = home(place(&entry), slots);
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

/// Spreads 32 bits of hash over any number of slots without a division.
#[inline]
fn home(Place(place): Place, slots: usize) -> usize {
    ((u64::from(place) * slots as u64) >> 32) as usize
}

/// The first table has this many slots.
const SMALLEST: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::entry::{KeyWords, VersionId};

    /// Places all over, many of them shared, some at the very end so that searches wrap around.
    fn place(key: u64) -> Place {
        let key = u32::try_from(key).unwrap();
        match key % 3 {
            0 => Place(u32::MAX),
            1 => Place(key.wrapping_mul(0x9E37_79B9)),
            _ => Place((key % 50) << 20),
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
            let found = table.find(place(key), |entry| entry.may_be(words(key)));
            assert_eq!(found.map(|index| table.get(index).version().0), map.get(&key).copied());
            match found {
                Some(index) if random >> 20 & 1 == 0 => {
                    table.remove(index, |entry| place(key_of(entry)));
                    map.remove(&key);
                }
                Some(_) => {}
                None => {
                    if table.is_full() {
                        table.resize(table.grown(), |entry| place(key_of(entry)));
                    }
                    table.insert(place(key), Entry::new(words(key), None, VersionId(step)));
                    map.insert(key, step);
                }
            }
            assert_eq!(table.len(), map.len());
        }
        for (key, version) in map {
            let index = table.find(place(key), |entry| entry.may_be(words(key))).unwrap();
            assert_eq!(table.get(index).version().0, version);
        }
    }
}
