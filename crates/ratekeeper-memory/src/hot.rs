//! Hot slots: lock-free storage for the busiest keys.
//!
//! A key whose state is one meter may be promoted from the table into a slot, one cache line that is read and replaced
//! as a whole (see [`seqlock`](crate::seqlock)). An allowed request then costs one atomic exchange, a denied one none.
//! The entry in the table stays and is marked hot; code that holds the shard's lock and needs the state demotes the key
//! first. Slots are never moved or freed, so readers need no reclamation scheme.
//!
//! Slots form sets of four. The hash selects the set and the slot to try first. If the key is in neither of the two
//! near slots, the `far` hint in the first says whether the two far slots are worth probing; for most of a million keys
//! they are not. A key is promoted when it is stored and a slot of its set is free, or when its set was missed by the
//! same key twice in a row. So among few keys all become hot, and among a million few replace each other.

mod key;

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{Policy, RuleDecision, Take, Timestamp, algorithm::Meter, store_api::MeteredTake};

pub(crate) use self::key::{HotKey, WantedKey};
use crate::seqlock::{SeqLock, Stamp};

/// The hot slots of all shards, in one allocation, so that a decision finds its slot without the shard.
#[derive(Debug)]
pub(crate) struct Hot {
    /// The lowest bits of an index are the slot within a set, the next ones the shard, the rest the set.
    slots: Box<[Slot]>,
    shards: usize,
}

/// A cache line for one key.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    lock: SeqLock,
    /// Fingerprints of up to two keys that belong here and are in a far slot of the set. A hint only: written under the
    /// shard's lock, read without it.
    far: AtomicU64,
}

impl Hot {
    /// `sets_each` sets for each of `shards` shards, both powers of two. `sets_each` may be 0: then no key is hot.
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

    /// Index of the hash's set within its shard.
    #[inline]
    pub(crate) fn set_in_shard(&self, hash: u64) -> usize {
        self.home(hash) / WAYS / self.shards
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
    fn home(&self, hash: u64) -> usize {
        (hash >> SLOT_BITS) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Index of the hash's shard.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
    pub(crate) fn shard_of(hash: u64, shards: usize) -> usize {
        ((hash >> SLOT_BITS) as usize / WAYS) & (shards - 1)
    }

    /// The slots a key may be in, the first choice first.
    fn set_of(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        let home = self.home(hash);
        (0..WAYS).filter_map(move |way| self.slots.get(home ^ way))
    }

    /// Reads a key from its near slots, if no other thread writes to the slot at the same time.
    #[inline(always)]
    pub(crate) fn probe(&self, key: WantedKey) -> Probe<'_> {
        let home = self.home(key.hash);
        let Some(first) = self.slots.get(home) else { return Probe::Absent };
        let (mut lock, mut stamp) = (&first.lock, first.lock.begin());
        if !key.is_in(lock) {
            let Some(second) = self.slots.get(home ^ 1) else { return Probe::Absent };
            (lock, stamp) = (&second.lock, second.lock.begin());
            if !key.is_in(lock) {
                return if first.may_be_far(key.hash) { Probe::Uncertain } else { Probe::Absent };
            }
        }
        // Read after the selection, so that only the address depends on which slot matched.
        let meter = Meter { at: Timestamp::from_micros(lock.word(3)), used: lock.word(4) };
        if lock.is_unchanged_since(stamp) { Probe::Found(HotState { lock, stamp, meter }) } else { Probe::Uncertain }
    }

    /// Decides a take if the key is hot under this version and the request does not have to wait. `None` changes nothing;
    /// the shard decides then.
    pub(crate) fn take(
        &self,
        key: WantedKey,
        policy: &Policy,
        cost: u64,
        take: &Take,
        now: Timestamp,
    ) -> Option<RuleDecision> {
        for Slot { lock, .. } in self.set_of(key.hash) {
            for attempt in 0..TRIES {
                let Some((stamp, words)) = lock.read() else {
                    back_off(attempt);
                    continue;
                };
                let Some(mut meter) = key.meter_in(words) else { break };
                let MeteredTake { rule, changed, promised } = policy.take_metered(&mut meter, cost, take, now)?;
                if promised.is_some() {
                    return None;
                }
                if !changed || lock.replace_last(stamp, [meter.at.as_micros(), meter.used]) {
                    return Some(rule);
                }
                back_off(attempt);
            }
        }
        None
    }

    /// Inserts a key into a free slot of its set, or replaces another key and returns it. The caller holds the shard's
    /// lock.
    pub(crate) fn insert(&self, hash: u64, key: HotKey) -> Option<HotKey> {
        let is_free = |slot: &Slot| slot.lock.read().is_some_and(|(_, words)| HotKey::from(words).is_none());
        // In a full set the clock picks the victim: pseudo-random, and needs no memory.
        let any = || usize::try_from(key.meter.at.as_micros() % WAYS as u64).unwrap_or(0);
        let way = self.set_of(hash).position(is_free).unwrap_or_else(any);
        let home = self.home(hash);
        let slot = self.slots.get(home ^ way)?;
        if way >= NEAR {
            self.slots[home].add_far(hash);
        }
        HotKey::from(slot.lock.swap(key.into_words()))
    }

    /// Removes a key and returns its state, if it is hot. The caller holds the shard's lock.
    pub(crate) fn remove(&self, key: WantedKey) -> Option<Meter> {
        let (slot, _) = self.find(key)?;
        self.forget(key.hash);
        HotKey::from(slot.lock.swap([0; 5])).map(|key| key.meter)
    }

    /// Removes the hint of a key that has left its slot. The caller holds the shard's lock.
    pub(crate) fn forget(&self, hash: u64) {
        if let Some(slot) = self.slots.get(self.home(hash)) {
            slot.remove_far(hash);
        }
    }

    /// The present state of a key, if it is hot. The caller holds the shard's lock.
    pub(crate) fn peek(&self, key: WantedKey) -> Option<Meter> {
        self.find(key).map(|(_, meter)| meter)
    }

    /// Only the holder of the shard's lock changes which key is in a slot, so the result stays valid under it.
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

    /// Removes all keys of one shard.
    #[cfg(test)]
    fn drain_shard(&self, shard: usize) -> impl Iterator<Item = HotKey> + '_ {
        let own = self.slots.chunks_exact(WAYS).skip(shard).step_by(self.shards);
        own.flatten().filter_map(|slot| {
            slot.far.store(0, Ordering::Relaxed);
            HotKey::from(slot.lock.swap([0; 5]))
        })
    }
}

impl Slot {
    /// Whether a key with this hash may be in a far slot of the set.
    #[inline(always)]
    fn may_be_far(&self, hash: u64) -> bool {
        let (wanted, [one, other]) = (fingerprint(hash), self.far());
        wanted == one || wanted == other
    }

    fn add_far(&self, hash: u64) {
        let [one, other] = self.far();
        self.set_far(if one == 0 { [fingerprint(hash), other] } else { [one, fingerprint(hash)] });
    }

    fn remove_far(&self, hash: u64) {
        self.set_far(self.far().map(|known| if known == fingerprint(hash) { 0 } else { known }));
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn far(&self) -> [u32; 2] {
        let far = self.far.load(Ordering::Relaxed);
        [far as u32, (far >> 32) as u32]
    }

    fn set_far(&self, [one, other]: [u32; 2]) {
        self.far.store(u64::from(one) | u64::from(other) << 32, Ordering::Relaxed);
    }
}

/// The upper half of a hash, never zero.
#[inline(always)]
fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

/// Result of looking a key up in its near slots.
pub(crate) enum Probe<'a> {
    Found(HotState<'a>),
    /// In a far slot, or in a slot that another thread is writing to.
    Uncertain,
    /// In no slot, as far as is visible without the shard's lock.
    Absent,
}

/// A consistent snapshot of a hot key's state.
pub(crate) struct HotState<'a> {
    lock: &'a SeqLock,
    stamp: Stamp,
    pub(crate) meter: Meter,
}

impl HotState<'_> {
    /// Replaces the state, unless another thread has changed it since the snapshot.
    #[inline(always)]
    pub(crate) fn write(&self, Meter { at, used }: Meter) -> bool {
        self.lock.replace_last(self.stamp, [at.as_micros(), used])
    }
}

/// Spins before a retry, longer each time: moving the cache line between cores costs more than letting one thread make
/// several decisions in a row.
#[cold]
#[inline(never)]
fn back_off(attempt: u32) {
    for _ in 0..32 << attempt.min(4) {
        std::hint::spin_loop();
    }
}

/// Low hash bits that are skipped: log2 of the slot size, so the remaining bits address slots without a shift.
const SLOT_BITS: u32 = size_of::<Slot>().trailing_zeros();

/// Slots in a set.
pub(crate) const SET_KEYS: u8 = 4;
const WAYS: usize = SET_KEYS as usize;
/// Slots of a set that are probed without a hint.
const NEAR: usize = 2;
/// Bytes of a set.
pub(crate) const SET_BYTES: usize = WAYS * size_of::<Slot>();

/// Attempts on a contended slot before the shard's lock is taken. A writer is done within nanoseconds, unless its thread
/// was descheduled half-way.
const TRIES: u32 = 16;

#[cfg(test)]
mod tests;
