//! The busiest keys, decided about without a lock.
//!
//! A key whose state is one meter may be moved out of the table into a slot here, one cache line that is read and
//! replaced as a whole (see [`seqlock`](crate::seqlock)). A decision then costs one atomic exchange, a refusal none.
//! While a key is here its entry in the table only keeps its place; whoever has the shard's lock and needs the key
//! takes it home first. Slots never move or go away, so nothing needs to be kept alive for readers.
//!
//! There are two slots for each part of the hash. A key is moved in when it is asked for twice in a row, as far as its
//! pair of slots can tell; so among few keys all become hot, and among a million, hardly any comes to push another out.

use tollgate_core::{Metered, Micros, Policy, RuleDecision, Take, algorithm::Meter};

use crate::{
    entry::{KeyWords, VersionId},
    seqlock::SeqLock,
};

/// The hot slots of all shards, in one piece so that a decision finds its own without asking the shard.
#[derive(Debug)]
pub(crate) struct Hot {
    pairs: Box<[[SeqLock; 2]]>,
    /// The bits of a hash that say which shard.
    shard_mask: u64,
    /// The logarithm of how many pairs a shard has.
    shard_bits: u32,
}

/// A key in a slot: what it is, and how it stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HotKey {
    pub(crate) words: KeyWords,
    pub(crate) version: VersionId,
    pub(crate) meter: Meter,
}

impl Hot {
    /// So many pairs of slots for each of so many shards, both powers of two; or no slots at all.
    pub(crate) fn new(shards: usize, pairs_each: usize) -> Self {
        Self {
            pairs: (0..shards * pairs_each).map(|_| Default::default()).collect(),
            shard_mask: shards as u64 - 1,
            shard_bits: pairs_each.checked_ilog2().unwrap_or(0),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.pairs)
    }

    /// How many pairs a shard has.
    pub(crate) fn pairs_each(&self) -> usize {
        if self.pairs.is_empty() { 0 } else { 1 << self.shard_bits }
    }

    /// Which of its shard's pairs a hash belongs to: other bits than say which shard, or where in its table.
    #[inline]
    pub(crate) fn pair_in_shard(&self, hash: u64) -> usize {
        (hash >> 16) as usize & ((1 << self.shard_bits) - 1)
    }

    #[inline]
    fn pair_of(&self, hash: u64) -> Option<&[SeqLock; 2]> {
        let shard = usize::try_from(hash & self.shard_mask).unwrap_or(0);
        self.pairs.get(shard << self.shard_bits | self.pair_in_shard(hash))
    }

    /// Decides a take, if the key is hot, its policy is the one the caller knows, and nobody has to wait. `None` leaves
    /// everything as it was, for the shard to decide.
    #[inline(always)]
    pub(crate) fn take(
        &self,
        hash: u64,
        words: KeyWords,
        version: VersionId,
        policy: &Policy,
        take: &Take,
        now: Micros,
    ) -> Option<RuleDecision> {
        let tag = tag_of(words, version);
        let pair = self.pair_of(hash)?;
        for slot in pair {
            for attempt in 0..TRIES {
                let Some((stamp, [first, last, found, at, used])) = slot.read() else {
                    stand_back(attempt);
                    continue;
                };
                if found != tag || [first, last] != words.both() {
                    break;
                }
                let before = Meter { at: Micros(at), used };
                let mut meter = before;
                let Metered { rule, changed, promised } = policy.take_metered(&mut meter, take, now)?;
                if promised.is_some() {
                    return None;
                }
                if !changed || slot.replace_last(stamp, [meter.at.0, meter.used]) {
                    return Some(rule);
                }
                stand_back(attempt);
            }
        }
        None
    }

    /// Moves a key in, unless both slots of its pair are taken; then the one that must leave comes out. The caller holds
    /// the shard's lock.
    pub(crate) fn move_in(&self, hash: u64, key: HotKey) -> Option<HotKey> {
        let pair = self.pair_of(hash)?;
        let free = pair.iter().find(|slot| slot.read().is_some_and(|(_, words)| HotKey::from(words).is_none()));
        // Of two that are taken, time decides which goes: as good as any rule, and needs no memory.
        let slot = free.unwrap_or(&pair[usize::from(key.meter.at.0.is_multiple_of(2))]);
        HotKey::from(slot.swap(key.into_words()))
    }

    /// Takes a key home, if it is here. The caller holds the shard's lock.
    pub(crate) fn move_out(&self, hash: u64, words: KeyWords, version: VersionId) -> Option<Meter> {
        let tag = tag_of(words, version);
        let pair = self.pair_of(hash)?;
        // Only the holder of the lock changes which key is in a slot, so it stays the one we find.
        let is_it = |slot: &&SeqLock| loop {
            if let Some((_, [first, last, found, ..])) = slot.read() {
                return found == tag && [first, last] == words.both();
            }
        };
        let slot = pair.iter().find(is_it)?;
        HotKey::from(slot.swap([0; 5])).map(|key| key.meter)
    }

    /// Takes everybody of one shard home.
    pub(crate) fn move_all_out(&self, shard: usize) -> impl Iterator<Item = HotKey> + '_ {
        let own = self.pairs.iter().skip(shard << self.shard_bits).take(self.pairs_each());
        own.flatten().filter_map(|slot| HotKey::from(slot.swap([0; 5])))
    }
}

impl HotKey {
    fn into_words(self) -> [u64; 5] {
        let [first, last] = self.words.both();
        [first, last, tag_of(self.words, self.version), self.meter.at.0, self.meter.used]
    }

    fn from([first, last, tag, at, used]: [u64; 5]) -> Option<Self> {
        let version = VersionId(u16::try_from(tag >> 8 & 0xFFFF).unwrap_or(0));
        let meter = Meter { at: Micros(at), used };
        (tag != 0).then(|| Self { words: KeyWords::from_parts(tag & 0xFF, [first, last]), version, meter })
    }
}

/// Version and length in one word; the bit above them says that the slot is taken.
#[inline]
fn tag_of(words: KeyWords, VersionId(version): VersionId) -> u64 {
    1 << 24 | u64::from(version) << 8 | words.length()
}

/// Leaves the cache line to whoever was faster, a little longer each time: passing it to and fro costs more than letting
/// one thread get on with several decisions.
#[cold]
#[inline(never)]
fn stand_back(attempt: u32) {
    for _ in 0..32 << attempt.min(4) {
        std::hint::spin_loop();
    }
}

/// How often a decision is made anew because somebody else was faster, before it is left to the lock. Others are done
/// within nanoseconds, unless their thread was put to sleep half-way.
const TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &[u8], used: u64) -> HotKey {
        let meter = Meter { at: Micros(2), used };
        HotKey { words: KeyWords::of(name, || unreachable!("short")), version: VersionId(3), meter }
    }

    #[test]
    fn a_key_comes_home_as_it_went() {
        let hot = Hot::new(2, 4);
        assert_eq!(hot.move_in(0, key(b"a", 7)), None);
        assert_eq!(hot.move_in(0, key(b"b", 8)), None);
        let pushed_out = hot.move_in(0, key(b"c", 9));
        assert!(pushed_out == Some(key(b"a", 7)) || pushed_out == Some(key(b"b", 8)));
        assert_eq!(hot.move_out(0, key(b"c", 0).words, VersionId(3)), Some(key(b"c", 9).meter));
        assert_eq!(hot.move_out(0, key(b"c", 0).words, VersionId(3)), None);
        assert_eq!(hot.move_all_out(1).count(), 0);
        assert_eq!(hot.move_all_out(0).count(), 1);
    }

    #[test]
    fn the_same_key_under_another_version_is_another() {
        let hot = Hot::new(1, 1);
        let _ = hot.move_in(0, key(b"a", 7));
        assert_eq!(hot.move_out(0, key(b"a", 0).words, VersionId(4)), None);
    }

    #[test]
    fn without_slots_nobody_is_hot() {
        let hot = Hot::new(4, 0);
        assert_eq!(hot.move_in(0, key(b"a", 7)), None);
        assert_eq!(hot.pairs_each(), 0);
        assert_eq!(hot.move_out(0, key(b"a", 7).words, VersionId(3)), None);
    }
}
