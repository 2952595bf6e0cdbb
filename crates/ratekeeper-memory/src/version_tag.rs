//! Identity of a policy version: its serial number, and the tag of its keys in hot slots.

use crate::entry::KeyWords;

/// Identity of a policy version, unique in the lifetime of the store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Serial(pub(crate) u64);

/// A policy version as stored in a slot, in one word with the key's length. Serial numbers start at 1, so the word of an
/// occupied slot is not 0. They have 56 bits and are never reused, so a tag always means the same version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionTag(u64);

impl VersionTag {
    const SHIFT: u32 = 8;
    /// A tag that matches no slot, not even an empty one, for any key length.
    pub(crate) const NONE: u64 = 1 << (Self::SHIFT - 1);

    pub(crate) fn new(Serial(serial): Serial) -> Self {
        Self(serial << Self::SHIFT)
    }

    /// The version in the word of an occupied slot.
    #[inline]
    pub(crate) fn serial_in(word: u64) -> Serial {
        Serial(word >> Self::SHIFT)
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The word of a slot: this version and the length of the key.
    #[inline(always)]
    pub(crate) fn of(self, words: KeyWords) -> u64 {
        self.0 | words.length()
    }
}
