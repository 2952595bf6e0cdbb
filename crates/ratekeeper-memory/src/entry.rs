//! Table entry: one key in 32 bytes, two to a cache line.
//!
//! A bucket's state is two numbers below 2^52, which leaves 24 bits for everything else; the other 16 bytes are the key
//! itself, if it is short enough. What does not fit is stored in a slab ("spilled"), and the entry holds its index.
//!
//! ```text
//!   word 0   at    52 bits │ version, low 12 bits
//!   word 1   used  52 bits │ version, high 4 bits │ hot 1 │ key length + 1: 5 │ spilled 1 │ denied 1
//!   words 2–3   key, 16 bytes     or     second hash │ slab index of the key
//! ```
//!
//! A version number beyond 16 bits is stored in place of `at`. The state of such a key is always spilled.

use ratekeeper_core::{Timestamp, algorithm::Meter};

/// A slot of the table. All zeroes is an empty one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(align(32))]
pub(crate) struct Entry([u64; 4]);

/// The key as an entry stores it, so that a comparison is three words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyWords {
    /// Length of a short key, or [`LONG`].
    length: u64,
    words: [u64; 2],
}

/// The policy version of a state: a number assigned by the shard's [`Versions`](crate::shard::Versions).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct VersionId(pub(crate) u32);

impl VersionId {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it does not fit into 16 bits.
    #[inline]
    pub(crate) fn is_wide(self) -> bool {
        u64::from(self.0) >= WIDE
    }
}

impl KeyWords {
    /// The bytes of a short key, or a second hash of a long one, which distinguishes almost all of them without a lookup.
    #[inline]
    pub(crate) fn of(key: &[u8], second_hash: impl FnOnce() -> u64) -> Self {
        Self::of_short(key).unwrap_or_else(|| Self { length: LONG, words: [second_hash(), 0] })
    }

    /// Keys of eight bytes and more are read as their first and last eight, which may overlap. With the length that is
    /// unambiguous, and nothing is copied.
    #[inline(always)]
    pub(crate) fn of_short(key: &[u8]) -> Option<Self> {
        let length = key.len() as u64;
        let words = if let (Some(first), Some(last), ..=INLINE) = (key.first_chunk(), key.last_chunk(), key.len()) {
            [u64::from_le_bytes(*first), u64::from_le_bytes(*last)]
        } else if let (Some(first), Some(last), ..8) = (key.first_chunk(), key.last_chunk(), key.len()) {
            [u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()]
        } else if key.len() < 4 {
            [key.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0]
        } else {
            return None;
        };
        Some(Self { length, words })
    }

    #[inline]
    pub(crate) fn length(self) -> u64 {
        self.length
    }

    #[inline]
    pub(crate) fn both(self) -> [u64; 2] {
        self.words
    }

    pub(crate) fn from_parts(length: u64, words: [u64; 2]) -> Self {
        Self { length, words }
    }

    pub(crate) fn is_long(self) -> bool {
        self.length == LONG
    }
}

impl Entry {
    pub(crate) const EMPTY: Self = Self([0; 4]);

    /// A new entry; `long_key` is the slab index of a long key.
    pub(crate) fn new(key: KeyWords, long_key: Option<u32>, version: VersionId) -> Self {
        let mut entry = Self([0, (key.length + 1) << LENGTH_SHIFT, key.words[0], key.words[1]]);
        if let Some(index) = long_key {
            entry.0[3] = u64::from(index);
        }
        entry.set_version(version);
        entry
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0[1] & LENGTH == 0
    }

    /// Whether this is that short key. Exact.
    #[inline]
    pub(crate) fn is_short(&self, key: KeyWords) -> bool {
        let length = (self.0[1] & LENGTH) ^ (key.length + 1) << LENGTH_SHIFT;
        // One branch instead of three.
        (self.0[2] ^ key.words[0]) | (self.0[3] ^ key.words[1]) | length == 0
    }

    /// Whether this may be that key. Exact for short keys; a long one must be compared in full.
    #[inline]
    pub(crate) fn may_be(&self, key: KeyWords) -> bool {
        self.0[2] == key.words[0] && (key.is_long() || self.0[3] == key.words[1]) && self.length() == key.length + 1
    }

    /// The length of its key plus one; 0 if the entry is empty.
    #[inline]
    fn length(&self) -> u64 {
        (self.0[1] & LENGTH) >> LENGTH_SHIFT
    }

    /// The slab index of a long key.
    pub(crate) fn long_key(&self) -> Option<u32> {
        (self.length() == LONG + 1).then_some(low_half(self.0[3]))
    }

    pub(crate) fn set_long_key(&mut self, index: u32) {
        self.0[3] = u64::from(index);
    }

    /// The words of its key. (The last word of a long one is its slab index, which is not part of the key.)
    pub(crate) fn key(&self) -> KeyWords {
        let length = self.length().saturating_sub(1);
        KeyWords { length, words: [self.0[2], if length == LONG { 0 } else { self.0[3] }] }
    }

    #[inline]
    pub(crate) fn version(&self) -> VersionId {
        match self.0[0] >> 52 | (self.0[1] >> 52 & 0xF) << 12 {
            WIDE => VersionId(low_half(self.0[0])),
            #[allow(clippy::cast_possible_truncation, reason = "16 bits")]
            narrow => VersionId(narrow as u32),
        }
    }

    /// A [wide](VersionId::is_wide) number overwrites the state, which the caller then spills.
    pub(crate) fn set_version(&mut self, version: VersionId) {
        if version.is_wide() {
            self.0[0] = u64::from(version.0);
        }
        let bits = u64::from(version.0).min(WIDE);
        self.0[0] = self.0[0] & NUMBER | bits << 52;
        self.0[1] = self.0[1] & !(0xF << 52) | (bits >> 12) << 52;
    }

    /// The state, if it is stored here.
    #[inline]
    pub(crate) fn meter(&self) -> Option<Meter> {
        (self.0[1] & SPILLED == 0)
            .then_some(Meter { at: Timestamp::from_micros(self.0[0] & NUMBER), used: self.0[1] & NUMBER })
    }

    /// The slab index of a spilled state.
    pub(crate) fn spilled(&self) -> Option<u32> {
        (self.0[1] & SPILLED != 0).then_some(low_half(self.0[1]))
    }

    #[inline]
    pub(crate) fn set_meter(&mut self, meter: Meter) {
        debug_assert!(meter.at.as_micros() <= NUMBER && meter.used <= NUMBER, "{meter:?} fits 52 bits");
        debug_assert!(!self.version().is_wide(), "a wide version number is stored where the state would be");
        self.0[0] = self.0[0] & !NUMBER | meter.at.as_micros() & NUMBER;
        self.0[1] = self.0[1] & !(NUMBER | SPILLED) | meter.used & NUMBER;
    }

    pub(crate) fn set_spilled(&mut self, index: u32) {
        self.0[1] = self.0[1] & !NUMBER | SPILLED | u64::from(index);
    }

    /// Whether the key is in a hot slot; the state in the entry is stale then.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.0[1] & HOT != 0
    }

    pub(crate) fn set_hot(&mut self, hot: bool) {
        self.0[1] = if hot { self.0[1] | HOT } else { self.0[1] & !HOT };
    }

    /// Whether the key was denied since its last initial state.
    pub(crate) fn was_denied(&self) -> bool {
        self.0[1] & DENIED != 0
    }

    #[inline]
    pub(crate) fn mark_denied(&mut self) {
        self.0[1] |= DENIED;
    }
}

/// Slab indices have 32 bits.
fn low_half(word: u64) -> u32 {
    u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0)
}

/// The longest key stored in the entry.
pub(crate) const INLINE: usize = 16;

const NUMBER: u64 = (1 << 52) - 1;
const HOT: u64 = 1 << 56;
const LENGTH_SHIFT: u32 = 57;
const LENGTH: u64 = 31 << LENGTH_SHIFT;
/// Length code of a key stored in the slab.
const LONG: u64 = 30;
const SPILLED: u64 = 1 << 62;
const DENIED: u64 = 1 << 63;
/// Code for all version numbers from here on.
const WIDE: u64 = 0xFFFF;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_entries_fill_a_cache_line() {
        assert_eq!(size_of::<Entry>(), 32);
        assert_eq!(align_of::<Entry>(), 32);
    }

    #[test]
    fn everything_put_in_comes_out_again() {
        let key = KeyWords::of(b"203.0.113.195", || unreachable!("short"));
        for version in [0, 1, 0xFFF, 0x1000, 0xFFFE] {
            let mut entry = Entry::new(key, None, VersionId(version));
            let most = Meter { at: Timestamp::from_micros(NUMBER), used: NUMBER };
            entry.set_meter(most);
            entry.mark_denied();
            entry.set_hot(true);
            assert!(entry.is_hot() && entry.is_short(key));
            entry.set_hot(false);
            assert!(!entry.is_hot() && entry.is_short(key));
            assert_eq!(entry.meter(), Some(most));
            assert_eq!(entry.version(), VersionId(version));
            assert_eq!(entry.key(), key);
            assert!(entry.may_be(key) && entry.was_denied() && !entry.is_empty());

            entry.set_spilled(u32::MAX);
            assert_eq!((entry.meter(), entry.spilled()), (None, Some(u32::MAX)));
            assert_eq!(entry.version(), VersionId(version));
            entry.set_meter(Meter { at: Timestamp::from_micros(7), used: 9 });
            assert_eq!(entry.meter(), Some(Meter { at: Timestamp::from_micros(7), used: 9 }));
        }
    }

    /// A number beyond 16 bits is stored while the state is spilled; a small number makes room for the state again.
    #[test]
    fn wide_versions_are_stored_with_a_spilled_state() {
        let key = KeyWords::of(b"203.0.113.195", || unreachable!("short"));
        for version in [0xFFFF, 0x1_0000, 1 << 24, u32::MAX] {
            let mut entry = Entry::new(key, None, VersionId(1));
            entry.set_meter(Meter { at: Timestamp::from_micros(NUMBER), used: NUMBER });
            entry.set_version(VersionId(version));
            entry.set_spilled(7);
            assert!(entry.version().is_wide() && entry.version() == VersionId(version));
            assert_eq!((entry.meter(), entry.spilled(), entry.key()), (None, Some(7), key));
            assert!(entry.is_short(key) && !entry.is_hot() && !entry.is_empty());
            entry.set_version(VersionId(3));
            entry.set_meter(Meter { at: Timestamp::from_micros(7), used: 9 });
            assert_eq!(
                (entry.version(), entry.meter()),
                (VersionId(3), Some(Meter { at: Timestamp::from_micros(7), used: 9 }))
            );
        }
    }

    #[test]
    fn every_byte_of_a_short_key_counts() {
        for length in 0..=INLINE {
            let key: Vec<u8> = (0..length).map(|index| u8::try_from(index).unwrap() + 1).collect();
            let words = KeyWords::of(&key, || unreachable!("short"));
            for index in 0..length {
                let mut other = key.clone();
                other[index] ^= 0x80;
                assert_ne!(KeyWords::of(&other, || unreachable!("short")), words, "byte {index} of {length}");
            }
        }
    }

    #[test]
    fn keys_that_differ_only_in_length_are_different() {
        let of = |key: &[u8]| KeyWords::of(key, || 1);
        let all: Vec<_> = (0..=16).map(|length| of(&[0; 16][..length])).collect();
        assert!(all.iter().enumerate().all(|(index, key)| !all[..index].contains(key)));
        assert_ne!(of(b"a"), of(b"a\0"));
        assert!(!Entry::new(of(b"a"), None, VersionId(0)).may_be(of(b"a\0")));
        assert!(of(&[b'x'; 17]).is_long() && !of(&[b'x'; 16]).is_long());
        assert_eq!(Entry::new(of(&[b'x'; 17]), Some(3), VersionId(0)).long_key(), Some(3));
    }
}
