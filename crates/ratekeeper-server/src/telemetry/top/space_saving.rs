//! Space-saving sketch: one shard of [`TopDenied`](super::TopDenied), with a fixed number of counters.
//!
//! ```text
//! hash ─table─▶ slot: key, count, error, heap index          heap[0] ─▶ slot with the lowest count, replaced next
//! ```
//!
//! The heap is a binary min-heap by count. Counts only grow, so an existing slot only sinks. A new key reuses the
//! strings of the slot that it replaces: a listed key needs no allocation, any other key few.

use hashbrown::HashTable;

use super::{Denial, DeniedKey};

/// A sketch with at most `most` counters.
#[derive(Debug)]
pub(super) struct SpaceSaving {
    most: usize,
    slots: Vec<CountedKey>,
    /// Slot indices by the hash of the key.
    table: HashTable<usize>,
    /// Slot indices as a binary min-heap: no slot has a lower count than its parent.
    heap: Vec<usize>,
}

#[derive(Debug, Default)]
struct CountedKey {
    hash: u64,
    denial: Denial,
    /// Domain, policy and key.
    id: [String; 3],
    count: u64,
    error: u64,
    /// Position of this slot in the heap.
    heap_index: usize,
}

impl SpaceSaving {
    pub(super) fn new(slots: usize) -> Self {
        Self { most: slots.max(1), slots: Vec::new(), table: HashTable::new(), heap: Vec::new() }
    }

    /// Counts a denial of the key with this hash.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, denial: Denial, id: [&str; 3]) {
        let is_same = |slot: &usize| {
            let slot = &self.slots[*slot];
            slot.hash == hash && slot.denial == denial && slot.id == id
        };
        let slot = match self.table.find(hash, is_same) {
            Some(slot) => *slot,
            None if self.slots.len() < self.most => self.insert(hash, denial, id),
            None => self.replace_least(hash, denial, id),
        };
        self.slots[slot].count += 1;
        self.sink(self.slots[slot].heap_index);
    }

    /// Adds a key while there is room.
    #[cold]
    fn insert(&mut self, hash: u64, denial: Denial, id: [&str; 3]) -> usize {
        let (slot, heap_index) = (self.slots.len(), self.heap.len());
        self.slots.push(CountedKey { hash, denial, id: id.map(str::to_owned), count: 0, error: 0, heap_index });
        self.heap.push(slot);
        // A count of 0 is below all others: the slot rises to the root and sinks after the increment.
        self.rise(heap_index);
        self.index(hash, slot);
        slot
    }

    /// Replaces the key with the lowest count. The new key inherits that count, which becomes its error.
    fn replace_least(&mut self, hash: u64, denial: Denial, id: [&str; 3]) -> usize {
        let slot = self.heap[0];
        let replaced = self.slots[slot].hash;
        if let Ok(entry) = self.table.find_entry(replaced, |known| *known == slot) {
            entry.remove();
        }
        let taken = &mut self.slots[slot];
        for (old, new) in taken.id.iter_mut().zip(id) {
            old.clear();
            old.push_str(new);
        }
        (taken.hash, taken.denial, taken.error) = (hash, denial, taken.count);
        self.index(hash, slot);
        slot
    }

    fn index(&mut self, hash: u64, slot: usize) {
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |known| slots[*known].hash);
    }

    /// Moves the slot at this heap position down until no child has a lower count.
    #[inline]
    fn sink(&mut self, mut heap_index: usize) {
        loop {
            let count = |at: usize| self.heap.get(at).map(|slot| self.slots[*slot].count);
            let (left, right) = (2 * heap_index + 1, 2 * heap_index + 2);
            let Some(of_left) = count(left) else { return };
            let least = if count(right).is_some_and(|of_right| of_right < of_left) { right } else { left };
            if count(least) >= count(heap_index) {
                return;
            }
            self.swap(heap_index, least);
            heap_index = least;
        }
    }

    fn rise(&mut self, mut heap_index: usize) {
        while heap_index > 0 {
            let parent = (heap_index - 1) / 2;
            if self.slots[self.heap[parent]].count <= self.slots[self.heap[heap_index]].count {
                return;
            }
            self.swap(heap_index, parent);
            heap_index = parent;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.slots[self.heap[one]].heap_index = one;
        self.slots[self.heap[other]].heap_index = other;
    }

    /// At most `most` keys, highest count first.
    pub(super) fn top(&self, most: usize) -> Vec<DeniedKey> {
        let mut all: Vec<&CountedKey> = self.slots.iter().collect();
        all.sort_by_key(|slot| std::cmp::Reverse(slot.count));
        all.truncate(most);
        let listed = all.into_iter().map(|slot| {
            let [domain, policy, key] = slot.id.clone();
            DeniedKey { domain, policy, key, denial: slot.denial, denied: slot.count, error: slot.error }
        });
        listed.collect()
    }
}
