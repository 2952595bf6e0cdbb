//! One key in 32 bytes: two to a cache line, never across two.
//!
//! A bucket's state is two numbers below 2^52, which leaves 24 bits for everything else we need to know; the other 16
//! bytes are the key itself, if it is short enough. What does not fit lives beside the table, and the entry says where.
//!
//! ```text
//!   word 0   at    52 bits │ version, low 12 bits
//!   word 1   used  52 bits │ version, high 4 bits │ hot 1 │ key length + 1: 5 │ beside 1 │ denied 1
//!   words 2–3   key, 16 bytes     or     second hash │ place of the key
//! ```
//!
//! A version whose number does not fit 16 bits is written where `at` would be. The state of such a key always lies
//! beside the table.

use tollgate_core::{Micros, algorithm::Meter};

/// A slot of the table. All zeroes is an empty one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(align(32))]
pub(crate) struct Entry([u64; 4]);

/// The key as an entry holds it, so that looking one up compares three words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyWords {
    /// Length in place, or [`LONG`].
    length: u64,
    words: [u64; 2],
}

/// Which version of which policy a state was written under: a number that [`Versions`](crate::shard::Versions) of the
/// shard has given out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct VersionId(pub(crate) u32);

impl VersionId {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it does not fit beside a state in the entry.
    #[inline]
    pub(crate) fn is_wide(self) -> bool {
        u64::from(self.0) >= WIDE
    }
}

impl KeyWords {
    /// Short keys whole; of long ones a second hash, to tell almost all of them apart without looking them up.
    #[inline]
    pub(crate) fn of(key: &[u8], second_hash: impl FnOnce() -> u64) -> Self {
        Self::of_short(key).unwrap_or_else(|| Self { length: LONG, words: [second_hash(), 0] })
    }

    /// Eight bytes and more are read as the first eight and the last eight, which may overlap: the length says how. So
    /// nothing is copied, and two words tell keys of one length apart.
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

    /// A new entry; a long key lies at `long_key` beside the table.
    pub(crate) fn new(key: KeyWords, long_key: Option<u32>, version: VersionId) -> Self {
        let mut entry = Self([0, (key.length + 1) << LENGTH_SHIFT, key.words[0], key.words[1]]);
        if let Some(place) = long_key {
            entry.0[3] = u64::from(place);
        }
        entry.set_version(version);
        entry
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0[1] & LENGTH == 0
    }

    /// Whether this is that short key, beyond doubt.
    #[inline]
    pub(crate) fn is_short(&self, key: KeyWords) -> bool {
        let length = (self.0[1] & LENGTH) ^ (key.length + 1) << LENGTH_SHIFT;
        // One question to the branch predictor rather than three.
        (self.0[2] ^ key.words[0]) | (self.0[3] ^ key.words[1]) | length == 0
    }

    /// Whether this is that key, as far as the entry can tell: certain for short keys.
    #[inline]
    pub(crate) fn may_be(&self, key: KeyWords) -> bool {
        self.0[2] == key.words[0] && (key.is_long() || self.0[3] == key.words[1]) && self.length() == key.length + 1
    }

    /// The length of its key plus one; 0 if there is none.
    #[inline]
    fn length(&self) -> u64 {
        (self.0[1] & LENGTH) >> LENGTH_SHIFT
    }

    /// Where a long key lies.
    pub(crate) fn long_key(&self) -> Option<u32> {
        (self.length() == LONG + 1).then_some(low_half(self.0[3]))
    }

    pub(crate) fn set_long_key(&mut self, place: u32) {
        self.0[3] = u64::from(place);
    }

    /// The key as it was looked up. (Of a long one the last word is its place, which is no part of it.)
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

    /// A [wide](VersionId::is_wide) one takes the place of a state, which the caller then puts beside the table.
    pub(crate) fn set_version(&mut self, version: VersionId) {
        if version.is_wide() {
            self.0[0] = u64::from(version.0);
        }
        let bits = u64::from(version.0).min(WIDE);
        self.0[0] = self.0[0] & NUMBER | bits << 52;
        self.0[1] = self.0[1] & !(0xF << 52) | (bits >> 12) << 52;
    }

    /// The state, if it is the kind that fits.
    #[inline]
    pub(crate) fn meter(&self) -> Option<Meter> {
        (self.0[1] & BESIDE == 0).then_some(Meter { at: Micros(self.0[0] & NUMBER), used: self.0[1] & NUMBER })
    }

    /// Where the state lies, if it does not fit.
    pub(crate) fn beside(&self) -> Option<u32> {
        (self.0[1] & BESIDE != 0).then_some(low_half(self.0[1]))
    }

    #[inline]
    pub(crate) fn set_meter(&mut self, meter: Meter) {
        debug_assert!(meter.at.0 <= NUMBER && meter.used <= NUMBER, "{meter:?} fits 52 bits");
        debug_assert!(!self.version().is_wide(), "the number of the version is where the state would be");
        self.0[0] = self.0[0] & !NUMBER | meter.at.0 & NUMBER;
        self.0[1] = self.0[1] & !(NUMBER | BESIDE) | meter.used & NUMBER;
    }

    pub(crate) fn set_beside(&mut self, place: u32) {
        self.0[1] = self.0[1] & !NUMBER | BESIDE | u64::from(place);
    }

    /// Whether the state is in a hot slot at present; what the entry says of it is old.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.0[1] & HOT != 0
    }

    pub(crate) fn set_hot(&mut self, hot: bool) {
        self.0[1] = if hot { self.0[1] | HOT } else { self.0[1] & !HOT };
    }

    /// Whether the key was refused something since it was last as good as new.
    pub(crate) fn was_denied(&self) -> bool {
        self.0[1] & DENIED != 0
    }

    #[inline]
    pub(crate) fn mark_denied(&mut self) {
        self.0[1] |= DENIED;
    }
}

/// Places beside the table are handed out as 32-bit numbers, so the low half is all of it.
fn low_half(word: u64) -> u32 {
    u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0)
}

/// Longest key kept in the entry.
pub(crate) const INLINE: usize = 16;

const NUMBER: u64 = (1 << 52) - 1;
const HOT: u64 = 1 << 56;
const LENGTH_SHIFT: u32 = 57;
const LENGTH: u64 = 31 << LENGTH_SHIFT;
/// The length of a key that is kept elsewhere.
const LONG: u64 = 30;
const BESIDE: u64 = 1 << 62;
const DENIED: u64 = 1 << 63;
/// What stands for all versions from this number on.
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
            let most = Meter { at: Micros(NUMBER), used: NUMBER };
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

            entry.set_beside(u32::MAX);
            assert_eq!((entry.meter(), entry.beside()), (None, Some(u32::MAX)));
            assert_eq!(entry.version(), VersionId(version));
            entry.set_meter(Meter { at: Micros(7), used: 9 });
            assert_eq!(entry.meter(), Some(Meter { at: Micros(7), used: 9 }));
        }
    }

    /// A number beyond 16 bits is kept while the state is beside the table, and gives its place up for a small one.
    #[test]
    fn wide_versions_are_kept_beside_a_state() {
        let key = KeyWords::of(b"203.0.113.195", || unreachable!("short"));
        for version in [0xFFFF, 0x1_0000, 1 << 24, u32::MAX] {
            let mut entry = Entry::new(key, None, VersionId(1));
            entry.set_meter(Meter { at: Micros(NUMBER), used: NUMBER });
            entry.set_version(VersionId(version));
            entry.set_beside(7);
            assert!(entry.version().is_wide() && entry.version() == VersionId(version));
            assert_eq!((entry.meter(), entry.beside(), entry.key()), (None, Some(7), key));
            assert!(entry.is_short(key) && !entry.is_hot() && !entry.is_empty());
            entry.set_version(VersionId(3));
            entry.set_meter(Meter { at: Micros(7), used: 9 });
            assert_eq!((entry.version(), entry.meter()), (VersionId(3), Some(Meter { at: Micros(7), used: 9 })));
        }
    }

    #[test]
    fn every_byte_of_a_short_key_tells() {
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
