//! Top denied keys: a bounded list of the keys with the most refusals, bans and shadow denials.
//!
//! The algorithm is the space-saving sketch. When the list is full, a new key reentries the key with the lowest count
//! and inherits that count.
//!
//! Bound: a key with more than `1/entries` of all denials is always listed. A count is never too low, and too high by at
//! most `error`, which is at most `1/entries` of all denials.
//!
//! Denials may arrive at a high rate, so the list has [`SHARDS`] shards with separate locks. A key belongs to one
//! shard. Each shard has `entries` of them, so that the bound does not depend on how evenly keys are distributed.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use parking_lot::Mutex;

use self::space_saving::SpaceSaving;

mod space_saving;

/// The keys denied most.
#[derive(Debug)]
pub struct TopDenied {
    shards: [Mutex<SpaceSaving>; SHARDS],
    hasher: RandomState,
}

/// How a request was denied.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Denial {
    /// By a limit.
    #[default]
    Refused,
    /// By a ban.
    Banned,
    /// By rules in shadow mode only: the request was allowed.
    Shadow,
}

impl Denial {
    /// Its name in `/api/state`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Banned => "banned",
            Self::Shadow => "shadow",
        }
    }
}

/// A key with its count of denials.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeniedKey {
    /// Its domain.
    pub domain: String,
    /// The policy that denied it.
    pub policy: String,
    /// The key that was counted, truncated to 256 bytes.
    pub key: String,
    /// How it was denied. A key that was denied in several ways has one entry for each.
    pub denial: Denial,
    /// Upper bound of the number of denials.
    pub denied: u64,
    /// Maximum overestimate in `denied`.
    pub error: u64,
}

impl TopDenied {
    /// A list with this many entries per shard.
    pub fn new(entries: usize) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(SpaceSaving::new(entries))), hasher: RandomState::default() }
    }

    /// Counts a denial.
    #[inline]
    pub fn note(&self, denial: Denial, domain: &str, policy: &str, key: &str) {
        // Bounds the memory of an entry. Keys with the same prefix of this length share one entry.
        let key = cut(key);
        let hash = self.hasher.hash_one((denial, domain, policy, key));
        // The hash table of a shard uses the lowest and the highest bits, so the shard is selected by others.
        let shard = (hash >> 32) as usize % SHARDS;
        self.shards[shard].lock().note(hash, denial, [domain, policy, key]);
    }

    /// At most `most` keys, highest count first.
    pub fn top(&self, most: usize) -> Vec<DeniedKey> {
        let mut listed: Vec<DeniedKey> = self.shards.iter().flat_map(|shard| shard.lock().top(most)).collect();
        listed.sort_by(|one, other| other.denied.cmp(&one.denied).then_with(|| one.key.cmp(&other.key)));
        listed.truncate(most);
        listed
    }
}

/// The first bytes of a key, for lists that keep few.
pub(super) fn cut(key: &str) -> &str {
    let mut end = key.len().min(MAX_SHOWN_BYTES);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

/// Shards: the number of threads that can count denials of different keys at once.
const SHARDS: usize = 8;

/// Bytes of a key that are kept.
const MAX_SHOWN_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Instant};

    use super::*;

    #[test]
    fn a_key_denied_often_is_found_among_a_flood_of_others() {
        let top = TopDenied::new(50);
        for round in 0..10_000_u32 {
            top.note(Denial::Refused, "api", "per-user", &format!("other {round}"));
            if round % 10 == 0 {
                top.note(Denial::Refused, "api", "per-user", "greedy");
            }
        }
        let first = &top.top(1)[0];
        assert_eq!(first.key, "greedy");
        assert!(first.denied - first.error <= 1_000 && first.denied >= 1_000, "{first:?}");
        assert_eq!(top.top(10_000).len(), 50 * SHARDS, "the list is bounded");
    }

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let top = TopDenied::new(3);
        for key in ["a", "b", "b", "c", "c", "c"] {
            top.note(Denial::Refused, "d", "p", key);
        }
        let listed: Vec<_> = top.top(9).into_iter().map(|denied| (denied.key, denied.denied, denied.error)).collect();
        assert_eq!(listed, [("c".into(), 3, 0), ("b".into(), 2, 0), ("a".into(), 1, 0)]);
    }

    #[test]
    fn the_same_key_under_another_policy_has_its_own_entry() {
        let top = TopDenied::new(9);
        for (domain, policy) in [("a", "bc"), ("ab", "c"), ("a", "bc")] {
            top.note(Denial::Refused, domain, policy, "k");
        }
        let listed: Vec<_> = top.top(9).into_iter().map(|one| (one.domain, one.policy, one.denied)).collect();
        assert_eq!(listed, [("a".into(), "bc".into(), 2), ("ab".into(), "c".into(), 1)]);
    }

    #[test]
    fn the_same_key_denied_in_another_way_is_listed_separately() {
        let top = TopDenied::new(9);
        for denial in [Denial::Shadow, Denial::Banned, Denial::Shadow, Denial::Refused, Denial::Shadow, Denial::Banned]
        {
            top.note(denial, "d", "p", "k");
        }
        let listed: Vec<_> = top.top(9).into_iter().map(|one| (one.denial.name(), one.denied)).collect();
        assert_eq!(listed, [("shadow", 3), ("banned", 2), ("refused", 1)]);
    }

    /// The bounds of the module documentation, compared with exact counts of a skewed distribution of keys.
    #[test]
    fn no_count_is_too_low_or_too_high_by_more_than_the_bound() {
        const ENTRIES: usize = 32;
        let (top, mut exact) = (TopDenied::new(ENTRIES), HashMap::<String, u64>::new());
        let (mut state, mut all) = (42_u64, 0_u64);
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rank = (1_u64 << 31) / ((state >> 33) + 20_000);
            let key = format!("key {rank}");
            top.note(Denial::Refused, "d", "p", &key);
            *exact.entry(key).or_default() += 1;
            all += 1;
        }
        let listed = top.top(usize::MAX);
        for one in &listed {
            let real = exact[&one.key];
            assert!(one.denied >= real && one.denied - one.error <= real, "{one:?}, really {real}");
            assert!(one.error <= all / ENTRIES as u64, "{one:?} of {all}");
        }
        let often = exact.iter().filter(|(_, real)| **real > all / ENTRIES as u64);
        for (key, real) in often {
            assert!(listed.iter().any(|one| one.key == *key), "{key} was denied {real} times of {all}");
        }
    }

    #[test]
    fn a_key_that_is_listed_costs_no_allocation() {
        let top = TopDenied::new(100);
        top.note(Denial::Refused, "api", "per-user", "greedy");
        let counted = allocation_counter::measure(|| {
            for _ in 0..1_000 {
                top.note(Denial::Refused, "api", "per-user", "greedy");
            }
        });
        assert_eq!(counted.count_total, 0);
    }

    /// `cargo test --release -p ratekeeper-server --lib -- --ignored --nocapture cost_of_a_denial`
    #[test]
    #[ignore = "a measurement"]
    #[allow(clippy::print_stdout, reason = "its figures")]
    fn cost_of_a_denial() {
        const ROUNDS: u32 = 2_000_000;
        for (name, keys) in [("one key", 1_u32), ("500 keys", 500), ("a million keys", 1_000_000)] {
            let keys: Vec<String> = (0..keys).map(|key| format!("user:{key}")).collect();
            for threads in [1, 2] {
                let top = TopDenied::new(1_000);
                let began = Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            for round in 0..ROUNDS as usize {
                                top.note(
                                    Denial::Refused,
                                    "api",
                                    "per-user",
                                    &keys[round.wrapping_mul(2_654_435_761) % keys.len()],
                                );
                            }
                        });
                    }
                });
                let each = began.elapsed() / (ROUNDS * threads);
                println!("{name}, {threads} threads: {each:?} a denial");
            }
        }
    }
}
