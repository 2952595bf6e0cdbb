//! Seeded key hash, against collisions chosen by an attacker.
//!
//! Each of the two words of a key is xored with one secret and multiplied by another, with the halves of the product
//! folded. All four secrets are random per store, so colliding keys cannot be computed without them. The two products are
//! independent, which matters because every decision waits for the hash.
//!
//! Products alone would put consecutive keys such as `user:1` and `user:2` at equal distances, and some strides hit the
//! same slots over and over: in one store of sixty, a hundred of a thousand such keys found their set of hot slots full.
//! The final rotate-and-xor spreads them evenly.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use foldhash::quality::SeedableRandomState;

use crate::{entry::KeyWords, policies::PolicyId};

/// Hash function of one store.
#[derive(Clone)]
pub(crate) struct KeyHasher {
    first: Mix,
    last: Mix,
    long_keys: SeedableRandomState,
}

impl KeyHasher {
    /// A hasher with random secrets.
    pub(crate) fn random() -> Self {
        let random = || RandomState::new().hash_one(0);
        let mix = || Mix { with: random(), by: random() | 1 };
        Self { first: mix(), last: mix(), long_keys: SeedableRandomState::random() }
    }

    /// The key as a table entry stores it.
    #[inline(always)]
    pub(crate) fn words_of(&self, key: &[u8]) -> KeyWords {
        KeyWords::of(key, || self.hash_long(key))
    }

    /// Stored in the entry of a long key, so that rehashing an entry needs no lookup of its key.
    #[inline(never)]
    fn hash_long(&self, key: &[u8]) -> u64 {
        self.long_keys.hash_one(key)
    }

    /// The hash of a key under a policy.
    #[inline]
    pub(crate) fn hash(&self, policy: PolicyId, words: KeyWords) -> u64 {
        self.hash_under(self.salt(policy), words)
    }

    /// The salt of a policy.
    #[inline]
    pub(crate) fn salt(&self, PolicyId(policy): PolicyId) -> Salt {
        Salt(self.first.with ^ policy.rotate_left(32))
    }

    /// The hash of a key, given its policy's salt.
    #[inline(always)]
    pub(crate) fn hash_under(&self, Salt(salt): Salt, words: KeyWords) -> u64 {
        let [first, last] = words.both();
        let first = folded_multiply(first ^ words.length() << 24 ^ salt, self.first.by);
        let last = folded_multiply(last ^ self.last.with, self.last.by);
        let hash = first ^ last;
        hash ^ hash.rotate_right(TURN)
    }
}

/// Secrets applied to one word of every key.
#[derive(Clone, Copy)]
struct Mix {
    with: u64,
    by: u64,
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// Mixed into every key of a policy. Derived from a secret, so it has no `Debug`.
#[derive(Clone, Copy)]
pub(crate) struct Salt(u64);

/// Both halves of the product, xored: every bit depends on most bits of both factors.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
fn folded_multiply(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Odd, so that the rotate-and-xor loses at most one bit of 64.
const TURN: u32 = 29;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(hasher: &KeyHasher, policy: u64, key: &str) -> u64 {
        hasher.hash(PolicyId(policy), hasher.words_of(key.as_bytes()))
    }

    #[test]
    fn every_store_has_different_hashes() {
        let [one, other] = [KeyHasher::random(), KeyHasher::random()];
        for key in ["", "a", "abcd", "user:42", "203.0.113.195", "a key that is longer than sixteen bytes"] {
            assert_eq!(hash(&one, 1, key), hash(&one.clone(), 1, key));
            assert_ne!(hash(&one, 1, key), hash(&other, 1, key));
            assert_ne!(hash(&one, 1, key), hash(&one, 2, key));
        }
    }

    /// Typical keys, counted by each group of bits that the store uses.
    #[test]
    fn similar_keys_spread_evenly() {
        let names: [fn(u32) -> String; 4] = [
            |id| format!("user:{id:07}"),
            |id| format!("{id}"),
            |id| format!("10.0.{}.{}", id >> 8, id & 255),
            |id| format!("a tenant with a long name, number {id}"),
        ];
        for (name, shift) in names.into_iter().flat_map(|name| [0, 2, 7, 12, 32, 54].map(|shift| (name, shift))) {
            let first = Mix { with: 0x9E37_79B9_7F4A_7C15, by: 0x243F_6A88_85A3_08D3 };
            let last = Mix { with: 0xD1B5_4A32_D192_ED03, by: 0x1319_8A2E_0370_7345 };
            let hasher = KeyHasher { first, last, ..KeyHasher::random() };
            let mut counts = [0_u32; 1024];
            for id in 0..65_536 {
                counts[usize::try_from(hash(&hasher, 0, &name(id)) >> shift & 1023).unwrap()] += 1;
            }
            // 64 on average, so 8 is the standard deviation; six of them up or down is one in a hundred million.
            assert!(counts.iter().all(|count| (16..=128).contains(count)), "{} by bits from {shift}", name(1));
        }
    }
}
