//! The busiest keys, decided about without a lock.
//!
//! A key whose state is one meter may be moved out of the table into a slot here, one cache line that is read and
//! replaced as a whole (see [`seqlock`](crate::seqlock)). A decision then costs one atomic exchange, a refusal none.
//! While a key is here its entry in the table only keeps its place; whoever has the shard's lock and needs the key
//! takes it home first. Slots never move or go away, so nothing needs to be kept alive for readers.
//!
//! Slots come in sets of four. The hash says which set, and which of its slots to try first, so most keys are found at
//! once and hardly any of a thousand finds its set full. Where a key is in neither of the first two, the first says
//! whether to look into the others, so that most of a million need not. A key moves in when it is known and there is a free slot, or
//! else when it is asked for twice in a row, as far as its set can tell; so among few keys all become hot, and among a
//! million, hardly any comes to push another out.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Metered, Micros, Policy, RuleDecision, Take, algorithm::Meter};

use crate::{
    entry::KeyWords,
    policies::Serial,
    seqlock::{SeqLock, Stamp},
};

/// The hot slots of all shards, in one piece so that a decision finds its own without asking the shard.
#[derive(Debug)]
pub(crate) struct Hot {
    /// Their number's lowest bits are the place in a set, the next ones the shard, then the set.
    slots: Box<[Slot]>,
    shards: usize,
}

/// A cache line for one key.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    lock: SeqLock,
    /// The marks of up to two keys that would rather be here and are in one of the far slots of the set. Only a hint:
    /// written under the shard's lock, read by anybody.
    away: AtomicU64,
}

/// A key in a slot: what it is, and how it stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HotKey {
    pub(crate) words: KeyWords,
    pub(crate) version: Serial,
    pub(crate) meter: Meter,
}

impl Hot {
    /// So many sets of slots for each of so many shards, both powers of two; or no slots at all.
    pub(crate) fn new(shards: usize, sets_each: usize) -> Self {
        Self { slots: (0..shards * sets_each * WAYS).map(|_| Slot::default()).collect(), shards }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// How many sets a shard has.
    pub(crate) fn sets_each(&self) -> usize {
        self.slots.len() / self.shards / WAYS
    }

    /// Which of its shard's sets a hash belongs to.
    #[inline]
    pub(crate) fn set_in_shard(&self, hash: u64) -> usize {
        self.home(hash) / WAYS / self.shards
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
    fn home(&self, hash: u64) -> usize {
        (hash >> SLOT_BITS) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Which of so many shards a hash belongs to.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
    pub(crate) fn shard_of(hash: u64, shards: usize) -> usize {
        ((hash >> SLOT_BITS) as usize / WAYS) & (shards - 1)
    }

    /// The slots a key may be in, the likeliest first.
    fn set_of(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        let home = self.home(hash);
        (0..WAYS).filter_map(move |way| self.slots.get(home ^ way))
    }

    /// Reads a key where almost all are: in one of the two slots it tries first, with nobody else at it.
    #[inline(always)]
    pub(crate) fn visit(&self, key: WantedKey) -> Visit<'_> {
        let home = self.home(key.hash);
        let Some(first) = self.slots.get(home) else { return Visit::Nowhere };
        let (mut lock, mut stamp) = (&first.lock, first.lock.begin());
        if !key.is_in(lock) {
            let Some(second) = self.slots.get(home ^ 1) else { return Visit::Nowhere };
            (lock, stamp) = (&second.lock, second.lock.begin());
            if !key.is_in(lock) {
                return if first.misses(key.hash) { Visit::Elsewhere } else { Visit::Nowhere };
            }
        }
        // Read only now, so that nothing but the place depends on which of the two it was.
        let meter = Meter { at: Micros(lock.word(3)), used: lock.word(4) };
        if lock.was_at_rest_since(stamp) { Visit::Here(Visited { lock, stamp, meter }) } else { Visit::Elsewhere }
    }

    /// Decides a take if the key is hot, its version is the one the caller knows, its state one meter, and nobody has to
    /// wait. `None` leaves everything as it was, for the shard to decide.
    pub(crate) fn take(&self, key: WantedKey, policy: &Policy, take: &Take, now: Micros) -> Option<RuleDecision> {
        for Slot { lock, .. } in self.set_of(key.hash) {
            for attempt in 0..TRIES {
                let Some((stamp, words)) = lock.read() else {
                    stand_back(attempt);
                    continue;
                };
                let Some(mut meter) = key.meter_in(words) else { break };
                let Metered { rule, changed, promised } = policy.take_metered(&mut meter, take, now)?;
                if promised.is_some() {
                    return None;
                }
                if !changed || lock.replace_last(stamp, [meter.at.0, meter.used]) {
                    return Some(rule);
                }
                stand_back(attempt);
            }
        }
        None
    }

    /// Moves a key in, into a free slot of its set if there is one; else the one that must leave comes out. The caller
    /// holds the shard's lock.
    pub(crate) fn move_in(&self, hash: u64, key: HotKey) -> Option<HotKey> {
        let is_free = |slot: &Slot| slot.lock.read().is_some_and(|(_, words)| HotKey::from(words).is_none());
        // Of those that are taken, time decides which goes: as good as any rule, and needs no memory.
        let any = || usize::try_from(key.meter.at.0 % WAYS as u64).unwrap_or(0);
        let way = self.set_of(hash).position(is_free).unwrap_or_else(any);
        let home = self.home(hash);
        let slot = self.slots.get(home ^ way)?;
        if way >= NEAR {
            self.slots[home].miss(hash);
        }
        HotKey::from(slot.lock.swap(key.into_words()))
    }

    /// Takes a key home, if it is here. The caller holds the shard's lock.
    pub(crate) fn move_out(&self, key: WantedKey) -> Option<Meter> {
        let (slot, _) = self.find(key)?;
        self.has_left(key.hash);
        HotKey::from(slot.lock.swap([0; 5])).map(|key| key.meter)
    }

    /// A key with this hash is not here any more. The caller holds the shard's lock.
    pub(crate) fn has_left(&self, hash: u64) {
        if let Some(slot) = self.slots.get(self.home(hash)) {
            slot.forget(hash);
        }
    }

    /// How a key stands at the moment, if it is here. The caller holds the shard's lock.
    pub(crate) fn look_at(&self, key: WantedKey) -> Option<Meter> {
        self.find(key).map(|(_, meter)| meter)
    }

    /// Only the holder of the lock changes which key is in a slot, so it stays the one we find.
    fn find(&self, key: WantedKey) -> Option<(&Slot, Meter)> {
        self.set_of(key.hash).find_map(|slot| {
            loop {
                if let Some((_, words)) = slot.lock.read() {
                    return key.meter_in(words).map(|meter| (slot, meter));
                }
                std::hint::spin_loop();
            }
        })
    }

    /// Takes everybody of one shard home.
    #[cfg(test)]
    fn move_all_out(&self, shard: usize) -> impl Iterator<Item = HotKey> + '_ {
        let own = self.slots.chunks_exact(WAYS).skip(shard).step_by(self.shards);
        own.flatten().filter_map(|slot| {
            slot.away.store(0, Ordering::Relaxed);
            HotKey::from(slot.lock.swap([0; 5]))
        })
    }
}

impl Slot {
    /// Whether a key with this hash may be in a far slot of the set.
    #[inline(always)]
    fn misses(&self, hash: u64) -> bool {
        let (mark, [one, other]) = (mark_of(hash), self.away());
        mark == one || mark == other
    }

    fn miss(&self, hash: u64) {
        let [one, other] = self.away();
        self.set_away(if one == 0 { [mark_of(hash), other] } else { [one, mark_of(hash)] });
    }

    fn forget(&self, hash: u64) {
        self.set_away(self.away().map(|mark| if mark == mark_of(hash) { 0 } else { mark }));
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn away(&self) -> [u32; 2] {
        let away = self.away.load(Ordering::Relaxed);
        [away as u32, (away >> 32) as u32]
    }

    fn set_away(&self, [one, other]: [u32; 2]) {
        self.away.store(u64::from(one) | u64::from(other) << 32, Ordering::Relaxed);
    }
}

/// The upper half of a hash, and never zero.
#[inline(always)]
fn mark_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

/// Where a key is.
pub(crate) enum Visit<'a> {
    Here(Visited<'a>),
    /// In a far slot, or in one that somebody is writing to.
    Elsewhere,
    /// In no slot, as far as can be told without the shard's lock.
    Nowhere,
}

/// A key in its slot, as it was at one moment.
pub(crate) struct Visited<'a> {
    lock: &'a SeqLock,
    stamp: Stamp,
    pub(crate) meter: Meter,
}

impl Visited<'_> {
    /// Writes how the key stands from now on, unless somebody else was faster.
    #[inline(always)]
    pub(crate) fn write(&self, Meter { at, used }: Meter) -> bool {
        self.lock.replace_last(self.stamp, [at.0, used])
    }
}

/// A key that is looked for, in the version that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct WantedKey {
    hash: u64,
    words: KeyWords,
    tag: u64,
}

impl WantedKey {
    #[inline(always)]
    pub(crate) fn new(hash: u64, words: KeyWords, version: Tag) -> Self {
        Self { hash, words, tag: version.of(words) }
    }

    /// Whether these are its words, as far as can be told without looking twice.
    #[inline(always)]
    fn is_in(&self, lock: &SeqLock) -> bool {
        let [first, last] = self.words.both();
        (lock.word(0) ^ first) | (lock.word(1) ^ last) | (lock.word(2) ^ self.tag) == 0
    }

    /// How the key stands, if these are its words.
    #[inline(always)]
    fn meter_in(&self, [first, last, tag, at, used]: [u64; 5]) -> Option<Meter> {
        let [wanted_first, wanted_last] = self.words.both();
        // One question to the branch predictor rather than three.
        let differs = (tag ^ self.tag) | (first ^ wanted_first) | (last ^ wanted_last);
        (differs == 0).then_some(Meter { at: Micros(at), used })
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl HotKey {
    fn into_words(self) -> [u64; 5] {
        let [first, last] = self.words.both();
        [first, last, Tag::new(self.version).of(self.words), self.meter.at.0, self.meter.used]
    }

    fn from([first, last, tag, at, used]: [u64; 5]) -> Option<Self> {
        let version = Serial(tag >> Tag::SHIFT);
        let meter = Meter { at: Micros(at), used };
        (tag != 0).then(|| Self { words: KeyWords::from_parts(tag & 0xFF, [first, last]), version, meter })
    }
}

/// A version as slots have it: in one word with the length of the key. Serial numbers begin with 1, so the word of a slot
/// that is taken is not 0. They are never used twice and have 56 bits, so a tag never comes to mean another version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag(u64);

impl Tag {
    const SHIFT: u32 = 8;
    /// A tag that no slot ever has, empty ones included, whatever the length of the key.
    pub(crate) const NONE: u64 = 1 << (Self::SHIFT - 1);

    pub(crate) fn new(Serial(serial): Serial) -> Self {
        Self(serial << Self::SHIFT)
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn of(self, words: KeyWords) -> u64 {
        self.0 | words.length()
    }
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

/// The bits of a hash that nothing goes by: as many as say where in a slot a byte is, so that the others say where a slot
/// is without being moved.
const SLOT_BITS: u32 = size_of::<Slot>().trailing_zeros();

/// How many keys fit into a set.
pub(crate) const SET_KEYS: u8 = 4;
const WAYS: usize = SET_KEYS as usize;
/// How many slots of a set are looked into without a hint.
const NEAR: usize = 2;
/// What a set takes.
pub(crate) const SET_BYTES: usize = WAYS * size_of::<Slot>();

/// How often a decision is made anew because somebody else was faster, before it is left to the lock. Others are done
/// within nanoseconds, unless their thread was put to sleep half-way.
const TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &[u8], used: u64) -> HotKey {
        let meter = Meter { at: Micros(2), used };
        HotKey { words: KeyWords::of(name, || unreachable!("short")), version: Serial(3), meter }
    }

    fn wanted(name: &[u8], version: u64) -> WantedKey {
        WantedKey::new(0, key(name, 0).words, Tag::new(Serial(version)))
    }

    #[test]
    fn a_key_comes_home_as_it_went() {
        let hot = Hot::new(2, 4);
        let names: [&[u8]; WAYS] = [b"a", b"b", b"c", b"d"];
        for (name, used) in names.into_iter().zip(7..) {
            assert_eq!(hot.move_in(0, key(name, used)), None);
        }
        let pushed_out = hot.move_in(0, key(b"e", 11)).unwrap();
        assert!(names.into_iter().zip(7..).any(|(name, used)| pushed_out == key(name, used)));
        assert_eq!(hot.look_at(wanted(b"e", 3)), Some(key(b"e", 11).meter));
        assert_eq!(hot.move_out(wanted(b"e", 3)), Some(key(b"e", 11).meter));
        assert_eq!(hot.move_out(wanted(b"e", 3)), None);
        assert_eq!(hot.move_all_out(1).count(), 0);
        assert_eq!(hot.move_all_out(0).count(), WAYS - 1);
    }

    /// Wherever in its set a key is, a decision finds it or is told to look further; and no further for one that is not.
    #[test]
    fn keys_in_far_slots_are_found() {
        let hot = Hot::new(1, 1);
        let is_nowhere = |name: &[u8], hash| {
            matches!(hot.visit(WantedKey::new(hash, key(name, 0).words, Tag::new(Serial(3)))), Visit::Nowhere)
        };
        let names: [&[u8]; WAYS] = [b"a", b"b", b"c", b"d"];
        // All four have the same home.
        let hash = |number: u64| number << 40;
        for (name, number) in names.into_iter().zip(1..) {
            assert!(is_nowhere(name, hash(number)));
            assert_eq!(hot.move_in(hash(number), key(name, number)), None);
            assert!(!is_nowhere(name, hash(number)));
        }
        assert!(is_nowhere(b"e", hash(5)));
        let fourth = WantedKey::new(hash(4), key(b"d", 0).words, Tag::new(Serial(3)));
        assert_eq!(hot.move_out(fourth), Some(key(b"d", 4).meter));
        assert!(is_nowhere(b"d", hash(4)) && !is_nowhere(b"c", hash(3)));
        assert_eq!(hot.move_all_out(0).count(), 3);
        assert!(is_nowhere(b"c", hash(3)));
    }

    #[test]
    fn a_set_belongs_to_one_shard() {
        let hot = Hot::new(4, 2);
        for slot in 0..4 * 2 * WAYS as u64 {
            assert_eq!(hot.move_in(slot << SLOT_BITS, key(&slot.to_le_bytes(), slot)), None);
        }
        for shard in 0..4 {
            let all: Vec<u64> = hot.move_all_out(shard).map(|key| key.meter.used << SLOT_BITS).collect();
            assert_eq!(all.len(), 2 * WAYS);
            assert!(all.iter().all(|&hash| Hot::shard_of(hash, 4) == shard && hot.set_in_shard(hash) < 2), "{all:?}");
        }
    }

    #[test]
    fn the_same_key_under_another_version_is_another() {
        let hot = Hot::new(1, 1);
        let _ = hot.move_in(0, key(b"a", 7));
        assert_eq!(hot.move_out(wanted(b"a", 4)), None);
    }

    /// The empty key has no bits, and an empty slot has none either.
    #[test]
    fn a_superseded_version_matches_no_slot() {
        let hot = Hot::new(1, 1);
        let none = |name: &[u8]| WantedKey::new(0, key(name, 0).words, Tag::from_word(Tag::NONE));
        for name in [&b""[..], b"a", b"sixteen bytes ..."[..16].as_ref()] {
            assert!(!matches!(hot.visit(none(name)), Visit::Here(_)));
            assert_eq!(hot.move_in(0, key(name, 7)), None);
            assert!(!matches!(hot.visit(none(name)), Visit::Here(_)));
            assert_eq!(hot.look_at(none(name)), None);
        }
    }

    #[test]
    fn without_slots_nobody_is_hot() {
        let hot = Hot::new(4, 0);
        assert_eq!(hot.move_in(0, key(b"a", 7)), None);
        assert_eq!(hot.sets_each(), 0);
        assert_eq!(hot.move_out(wanted(b"a", 3)), None);
    }
}
