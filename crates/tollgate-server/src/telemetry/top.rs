//! Who is denied most, within a fixed number of places.
//!
//! The space-saving sketch: a newcomer to a full list takes the place of the least denied key and inherits its count.
//! A key denied more often than one in `places` is always found; each count is too high by at most `error`.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

/// The keys denied most.
#[derive(Debug)]
pub struct TopDenied {
    places: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    keys: HashMap<Id, Place>,
    /// By count, least first; the number is the place.
    order: BTreeSet<(u64, u64)>,
    owners: HashMap<u64, Id>,
    next: u64,
}

/// Domain, policy and key.
type Id = (Box<str>, Box<str>, Box<str>);

#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    count: u64,
    error: u64,
}

/// A key and how often it was denied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeniedKey {
    /// Its domain.
    pub domain: String,
    /// The policy that denied it.
    pub policy: String,
    /// The key as it is counted.
    pub key: String,
    /// How often, at most.
    pub denied: u64,
    /// By how much that may be too high.
    pub error: u64,
}

impl TopDenied {
    /// A list with so many places.
    pub fn new(places: usize) -> Self {
        Self { places: places.max(1), inner: Mutex::default() }
    }

    /// One more denial.
    pub fn note(&self, domain: &str, policy: &str, key: &str) {
        // What is shown to people need not be longer than they can read; a cut key stands for all that begin so.
        let key = cut(key);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let id: Id = (domain.into(), policy.into(), key.into());
        if let Some(place) = inner.keys.get_mut(&id) {
            inner.order.remove(&(place.count, place.number));
            place.count += 1;
            inner.order.insert((place.count, place.number));
            return;
        }
        let inherited = if inner.keys.len() < self.places { 0 } else { inner.push_out_least() };
        let place = Place { number: inner.next, count: inherited + 1, error: inherited };
        inner.next += 1;
        inner.order.insert((place.count, place.number));
        inner.owners.insert(place.number, id.clone());
        inner.keys.insert(id, place);
    }

    /// The first so many, most denied first.
    pub fn top(&self, most: usize) -> Vec<DeniedKey> {
        let inner = self.inner.lock();
        let told = inner.order.iter().rev().take(most).filter_map(|(_, number)| {
            let id = inner.owners.get(number)?;
            let place = inner.keys.get(id)?;
            let (domain, policy, key) = id.clone();
            Some(DeniedKey {
                domain: domain.into(),
                policy: policy.into(),
                key: key.into(),
                denied: place.count,
                error: place.error,
            })
        });
        told.collect()
    }
}

impl Inner {
    fn push_out_least(&mut self) -> u64 {
        let Some((count, number)) = self.order.pop_first() else { return 0 };
        if let Some(id) = self.owners.remove(&number) {
            self.keys.remove(&id);
        }
        count
    }
}

fn cut(key: &str) -> &str {
    let mut end = key.len().min(MAX_SHOWN_BYTES);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

/// The longest key that is listed in full.
const MAX_SHOWN_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_denied_often_is_found_among_a_flood_of_others() {
        let top = TopDenied::new(50);
        for round in 0..10_000_u32 {
            top.note("api", "per-user", &format!("passer-by {round}"));
            if round % 10 == 0 {
                top.note("api", "per-user", "greedy");
            }
        }
        let first = &top.top(1)[0];
        assert_eq!(first.key, "greedy");
        assert!(first.denied - first.error <= 1_000 && first.denied >= 1_000, "{first:?}");
        assert_eq!(top.top(1_000).len(), 50, "the list has an end");
    }

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let top = TopDenied::new(3);
        for key in ["a", "b", "b", "c", "c", "c"] {
            top.note("d", "p", key);
        }
        let told: Vec<_> = top.top(9).into_iter().map(|denied| (denied.key, denied.denied, denied.error)).collect();
        assert_eq!(told, [("c".into(), 3, 0), ("b".into(), 2, 0), ("a".into(), 1, 0)]);
    }
}
