//! Encoding of a hot key in the five words of a slot: two of the key, one of version and key length, two of the state.

use ratekeeper_core::{Timestamp, algorithm::Meter};

use crate::{
    entry::KeyWords,
    seqlock::SeqLock,
    version_tag::{Serial, VersionTag},
};

/// The content of a slot: a key, its policy version and its state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HotKey {
    pub(crate) words: KeyWords,
    pub(crate) version: Serial,
    pub(crate) meter: Meter,
}

/// The key and policy version of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct WantedKey {
    pub(super) hash: u64,
    words: KeyWords,
    tag: u64,
}

impl WantedKey {
    #[inline(always)]
    pub(crate) fn new(hash: u64, words: KeyWords, version: VersionTag) -> Self {
        Self { hash, words, tag: version.of(words) }
    }

    /// Whether the slot holds this key. Must be confirmed by the slot's stamp.
    #[inline(always)]
    pub(super) fn is_in(&self, lock: &SeqLock) -> bool {
        let [first, last] = self.words.both();
        (lock.word(0) ^ first) | (lock.word(1) ^ last) | (lock.word(2) ^ self.tag) == 0
    }

    /// The state in these words, if they are of this key.
    #[inline(always)]
    pub(super) fn meter_in(&self, [first, last, tag, at, used]: [u64; 5]) -> Option<Meter> {
        let [wanted_first, wanted_last] = self.words.both();
        // One branch instead of three.
        let differs = (tag ^ self.tag) | (first ^ wanted_first) | (last ^ wanted_last);
        (differs == 0).then_some(Meter { at: Timestamp::from_micros(at), used })
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl HotKey {
    pub(super) fn into_words(self) -> [u64; 5] {
        let [first, last] = self.words.both();
        [first, last, VersionTag::new(self.version).of(self.words), self.meter.at.as_micros(), self.meter.used]
    }

    pub(super) fn from([first, last, tag, at, used]: [u64; 5]) -> Option<Self> {
        let version = VersionTag::serial_in(tag);
        let meter = Meter { at: Timestamp::from_micros(at), used };
        (tag != 0).then(|| Self { words: KeyWords::from_parts(tag & 0xFF, [first, last]), version, meter })
    }
}
