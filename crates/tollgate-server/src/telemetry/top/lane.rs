//! One lane of the list: places in a heap, the least denied on top, and a table to find a key's place.
//!
//! ```text
//! hash ─table─▶ place: key, count, error, and where it stands in the heap      heap[0] ─▶ the place that goes next
//! ```
//!
//! A count only grows, so a place only sinks; and who takes over a place takes over its memory. Nothing is allocated for
//! a key that is listed, and little for one that is not.

use hashbrown::HashTable;

use super::{Denial, DeniedKey};

#[derive(Debug)]
pub(super) struct Lane {
    most: usize,
    places: Vec<Place>,
    /// Places by the hash of their key.
    table: HashTable<usize>,
    /// Places, none before a place with a lower count that stands above it.
    heap: Vec<usize>,
}

#[derive(Debug, Default)]
struct Place {
    hash: u64,
    denial: Denial,
    /// Domain, policy and key.
    id: [String; 3],
    count: u64,
    error: u64,
    /// Where it stands in the heap.
    stands: usize,
}

impl Lane {
    pub(super) fn new(places: usize) -> Self {
        Self { most: places.max(1), places: Vec::new(), table: HashTable::new(), heap: Vec::new() }
    }

    /// One more denial of the key with this hash.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, denial: Denial, id: [&str; 3]) {
        let is_it = |place: &usize| {
            let place = &self.places[*place];
            place.hash == hash && place.denial == denial && place.id == id
        };
        let place = match self.table.find(hash, is_it) {
            Some(place) => *place,
            None if self.places.len() < self.most => self.take_new(hash, denial, id),
            None => self.take_over_least(hash, denial, id),
        };
        self.places[place].count += 1;
        self.sink(self.places[place].stands);
    }

    #[cold]
    fn take_new(&mut self, hash: u64, denial: Denial, id: [&str; 3]) -> usize {
        let (place, stands) = (self.places.len(), self.heap.len());
        self.places.push(Place { hash, denial, id: id.map(str::to_owned), count: 0, error: 0, stands });
        self.heap.push(place);
        // Nothing is below nothing: it may have to rise to where it can sink from.
        self.rise(stands);
        self.enter(hash, place);
        place
    }

    /// The least denied key goes; whoever comes inherits its count, and that it may be wrong by so much.
    fn take_over_least(&mut self, hash: u64, denial: Denial, id: [&str; 3]) -> usize {
        let place = self.heap[0];
        let gone = self.places[place].hash;
        if let Ok(entry) = self.table.find_entry(gone, |known| *known == place) {
            entry.remove();
        }
        let taken = &mut self.places[place];
        for (old, new) in taken.id.iter_mut().zip(id) {
            old.clear();
            old.push_str(new);
        }
        (taken.hash, taken.denial, taken.error) = (hash, denial, taken.count);
        self.enter(hash, place);
        place
    }

    fn enter(&mut self, hash: u64, place: usize) {
        let places = &self.places;
        self.table.insert_unique(hash, place, |known| places[*known].hash);
    }

    /// Moves what stands here below all that are denied less.
    #[inline]
    fn sink(&mut self, mut stands: usize) {
        loop {
            let count = |at: usize| self.heap.get(at).map(|place| self.places[*place].count);
            let (left, right) = (2 * stands + 1, 2 * stands + 2);
            let Some(of_left) = count(left) else { return };
            let least = if count(right).is_some_and(|of_right| of_right < of_left) { right } else { left };
            if count(least) >= count(stands) {
                return;
            }
            self.swap(stands, least);
            stands = least;
        }
    }

    fn rise(&mut self, mut stands: usize) {
        while stands > 0 {
            let above = (stands - 1) / 2;
            if self.places[self.heap[above]].count <= self.places[self.heap[stands]].count {
                return;
            }
            self.swap(stands, above);
            stands = above;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.places[self.heap[one]].stands = one;
        self.places[self.heap[other]].stands = other;
    }

    /// The first so many, most denied first.
    pub(super) fn top(&self, most: usize) -> Vec<DeniedKey> {
        let mut all: Vec<&Place> = self.places.iter().collect();
        all.sort_by_key(|place| std::cmp::Reverse(place.count));
        all.truncate(most);
        let told = all.into_iter().map(|place| {
            let [domain, policy, key] = place.id.clone();
            DeniedKey { domain, policy, key, denial: place.denial, denied: place.count, error: place.error }
        });
        told.collect()
    }
}
