//! Keys denied most, within a fixed number of places: refusals, bans and what rules that only watch would refuse.
//!
//! The space-saving sketch: a newcomer to a full list takes the place of the least denied key and inherits its count.
//! A key denied more often than one in `places` is always found; each count is too high by at most `error`, which is
//! never more than one in `places` of all denials.
//!
//! A flood of denials comes through here, so it goes in [`SHARDS`] lanes, each under a lock of its own. Every key has its
//! lane, and every lane as many places as were promised: fewer would do for keys that spread evenly, but then a promise
//! would hang on their doing so.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use parking_lot::Mutex;

use self::lane::Lane;

mod lane;

/// The keys denied most.
#[derive(Debug)]
pub struct TopDenied {
    lanes: [Mutex<Lane>; SHARDS],
    hasher: RandomState,
}

/// How a request was denied.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Denial {
    /// By a limit.
    #[default]
    Refused,
    /// By a rule file that refuses all of its kind.
    Banned,
    /// By rules that only watch: it was let through.
    Shadow,
}

impl Denial {
    /// The word for it in `/api/state`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Banned => "banned",
            Self::Shadow => "shadow",
        }
    }
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
    /// How it was denied; a key denied in several ways is listed once for each.
    pub denial: Denial,
    /// How often, at most.
    pub denied: u64,
    /// By how much that may be too high.
    pub error: u64,
}

impl TopDenied {
    /// A list with so many places.
    pub fn new(places: usize) -> Self {
        Self { lanes: std::array::from_fn(|_| Mutex::new(Lane::new(places))), hasher: RandomState::default() }
    }

    /// One more denial.
    #[inline]
    pub fn note(&self, denial: Denial, domain: &str, policy: &str, key: &str) {
        // What is shown to people need not be longer than they can read; a cut key stands for all that begin so.
        let key = cut(key);
        let hash = self.hasher.hash_one((denial, domain, policy, key));
        // The table below goes by the lowest and the highest bits.
        let lane = (hash >> 32) as usize % SHARDS;
        self.lanes[lane].lock().note(hash, denial, [domain, policy, key]);
    }

    /// The first so many, most denied first.
    pub fn top(&self, most: usize) -> Vec<DeniedKey> {
        let mut told: Vec<DeniedKey> = self.lanes.iter().flat_map(|lane| lane.lock().top(most)).collect();
        told.sort_by(|one, other| other.denied.cmp(&one.denied).then_with(|| one.key.cmp(&other.key)));
        told.truncate(most);
        told
    }
}

fn cut(key: &str) -> &str {
    let mut end = key.len().min(MAX_SHOWN_BYTES);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

/// Lanes; as many threads can note denials of different keys at once.
const SHARDS: usize = 8;

/// The longest key that is listed in full.
const MAX_SHOWN_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Instant};

    use super::*;

    #[test]
    fn a_key_denied_often_is_found_among_a_flood_of_others() {
        let top = TopDenied::new(50);
        for round in 0..10_000_u32 {
            top.note(Denial::Refused, "api", "per-user", &format!("passer-by {round}"));
            if round % 10 == 0 {
                top.note(Denial::Refused, "api", "per-user", "greedy");
            }
        }
        let first = &top.top(1)[0];
        assert_eq!(first.key, "greedy");
        assert!(first.denied - first.error <= 1_000 && first.denied >= 1_000, "{first:?}");
        assert_eq!(top.top(10_000).len(), 50 * SHARDS, "the list has an end");
    }

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let top = TopDenied::new(3);
        for key in ["a", "b", "b", "c", "c", "c"] {
            top.note(Denial::Refused, "d", "p", key);
        }
        let told: Vec<_> = top.top(9).into_iter().map(|denied| (denied.key, denied.denied, denied.error)).collect();
        assert_eq!(told, [("c".into(), 3, 0), ("b".into(), 2, 0), ("a".into(), 1, 0)]);
    }

    #[test]
    fn the_same_key_under_another_policy_is_another() {
        let top = TopDenied::new(9);
        for (domain, policy) in [("a", "bc"), ("ab", "c"), ("a", "bc")] {
            top.note(Denial::Refused, domain, policy, "k");
        }
        let told: Vec<_> = top.top(9).into_iter().map(|one| (one.domain, one.policy, one.denied)).collect();
        assert_eq!(told, [("a".into(), "bc".into(), 2), ("ab".into(), "c".into(), 1)]);
    }

    #[test]
    fn the_same_key_denied_in_another_way_is_listed_apart() {
        let top = TopDenied::new(9);
        for denial in [Denial::Shadow, Denial::Banned, Denial::Shadow, Denial::Refused, Denial::Shadow, Denial::Banned]
        {
            top.note(denial, "d", "p", "k");
        }
        let told: Vec<_> = top.top(9).into_iter().map(|one| (one.denial.name(), one.denied)).collect();
        assert_eq!(told, [("shadow", 3), ("banned", 2), ("refused", 1)]);
    }

    /// Some keys come often and most seldom, as they do; the promises at the top of this file, against an exact count.
    #[test]
    fn no_count_is_too_low_or_too_high_by_more_than_promised() {
        const PLACES: usize = 32;
        let (top, mut exact) = (TopDenied::new(PLACES), HashMap::<String, u64>::new());
        let (mut state, mut all) = (42_u64, 0_u64);
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rank = (1_u64 << 31) / ((state >> 33) + 20_000);
            let key = format!("key {rank}");
            top.note(Denial::Refused, "d", "p", &key);
            *exact.entry(key).or_default() += 1;
            all += 1;
        }
        let told = top.top(usize::MAX);
        for one in &told {
            let real = exact[&one.key];
            assert!(one.denied >= real && one.denied - one.error <= real, "{one:?}, really {real}");
            assert!(one.error <= all / PLACES as u64, "{one:?} of {all}");
        }
        let often = exact.iter().filter(|(_, real)| **real > all / PLACES as u64);
        for (key, real) in often {
            assert!(told.iter().any(|one| one.key == *key), "{key} was denied {real} times of {all}");
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

    /// `cargo test --release -p tollgate-server --lib -- --ignored --nocapture what_a_denial_costs`
    #[test]
    #[ignore = "a measurement"]
    #[allow(clippy::print_stdout, reason = "its figures")]
    fn what_a_denial_costs() {
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
