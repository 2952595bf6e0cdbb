//! Takes of one key: lock-free if the key is short and hot, otherwise under the lock of its shard.

use parking_lot::Mutex;
use ratekeeper_core::{
    Ask, Decision, StoreError, Take, Timestamp, Verb, Verdict,
    bounds::MAX_TIME,
    store_api::{BucketTake, SingleBucket},
};

use super::{
    MemoryStore,
    policy_handle::{FastPath, InstalledPolicy},
};
use crate::{
    clock::Clock,
    entry::KeyWords,
    hot::{Probe, WantedKey},
    shard::{HashedKey, Shard},
};

impl<C: Clock> MemoryStore<C> {
    /// Decides one take and returns the verdict only. The numbers of a full decision are not computed, which saves time for
    /// callers that make millions of decisions a second.
    #[inline(always)]
    pub fn verdict_now(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Verdict, StoreError> {
        self.take_one(ask, take, |bucket, taken, _| bucket.verdict(taken), |decision| decision.verdict)
    }

    /// Inlined into the caller: fast path only (short key, hot slot, single bucket). `on_fast_path` builds the result there;
    /// `from_decision` converts a full [`Decision`] on every other path.
    ///
    /// The clock is read first because it has the longest latency; the CPU computes the hash meanwhile.
    #[inline(always)]
    fn take_one<T, E: From<StoreError>>(
        &self,
        ask: &Ask<'_, InstalledPolicy>,
        take: &Take,
        on_fast_path: impl FnOnce(&SingleBucket, BucketTake, Timestamp) -> T,
        from_decision: impl FnOnce(Decision) -> T,
    ) -> Result<T, E> {
        let inner = &*self.inner;
        let now = inner.clock.now().min(MAX_TIME);
        if inner.expiring.is_due(now) {
            self.expire_due(now);
        }
        if let Some(FastPath { salt, bucket }) = &ask.policy.fast_path
            && let Some(words) = KeyWords::of_short(ask.key.as_bytes())
        {
            let hash = inner.hasher.hash_under(*salt, words);
            if !is_sweep_due(hash, now) {
                match inner.hot.probe(WantedKey::new(hash, words, ask.policy.handle.version.tag())) {
                    Probe::Found(state) => {
                        if let Some(taken) = bucket.take(state.meter, ask.cost, take, now)
                            && bucket.charged(taken, now).is_none_or(|meter| state.write(meter))
                        {
                            return Ok(on_fast_path(bucket, taken, now));
                        }
                    }
                    Probe::Uncertain => {}
                    Probe::Absent => {
                        return Ok(from_decision(self.take_cold(*ask, *take, hash, now).value));
                    }
                }
            }
        }
        Ok(from_decision(self.take_slow(*ask, *take, now).value?))
    }

    #[inline(always)]
    pub(super) fn decide_one<E: From<StoreError>>(
        &self,
        ask: &Ask<'_, InstalledPolicy>,
        take: &Take,
    ) -> Result<Decision, E> {
        self.take_one(
            ask,
            take,
            |bucket, taken, now| Decision::of_one(bucket.rule_decision(taken), now),
            |decision| decision,
        )
    }

    /// A short key that is not hot. Arguments are passed by value, so that the caller can keep them in registers.
    #[inline(never)]
    fn take_cold(
        &self,
        ask: Ask<'_, InstalledPolicy>,
        take: Take,
        hash: u64,
        now: Timestamp,
    ) -> ReturnBarrier<Decision> {
        let key = ask.key.as_bytes();
        let key = HashedKey { policy: &ask.policy.handle, key, hash, words: self.inner.hasher.words_of(key) };
        ReturnBarrier::new(take_locked(self.shard(hash), &key, ask.cost, &take, now))
    }

    /// Any other key or policy.
    #[inline(never)]
    fn take_slow(
        &self,
        ask: Ask<'_, InstalledPolicy>,
        take: Take,
        now: Timestamp,
    ) -> ReturnBarrier<Result<Decision, StoreError>> {
        let key = match self.hash_key(&ask) {
            Ok(key) => key,
            Err(error) => return ReturnBarrier::new(Err(error)),
        };
        let shard = self.shard(key.hash);
        let version = &ask.policy.handle.version;
        let wanted = WantedKey::new(key.hash, key.words, version.tag());
        if let Some(rule) = self.inner.hot.take(wanted, &version.policy, ask.cost, &take, now) {
            if is_sweep_due(key.hash, now) {
                sweep(shard, now);
            }
            return ReturnBarrier::new(Ok(Decision::of_one(rule, now)));
        }
        ReturnBarrier::new(Ok(take_locked(shard, &key, ask.cost, &take, now)))
    }
}

/// Return-slot barrier: prevents the callee from writing directly into the caller's return slot, so the inlined fast path
/// does not have to fill a whole [`Decision`]. The extra word stops LLVM from seeing through it.
struct ReturnBarrier<T> {
    value: T,
    _padding: u64,
}

impl<T> ReturnBarrier<T> {
    fn new(value: T) -> Self {
        Self { value, _padding: 0 }
    }
}

#[inline]
fn take_locked(shard: &Mutex<Shard>, key: &HashedKey<'_>, cost: u64, take: &Take, now: Timestamp) -> Decision {
    let mut shard = shard.lock();
    match shard.take_known(key, cost, take, now) {
        Some(decision) => decision,
        None => shard.decide(key, cost, &Verb::Take(*take), now),
    }
}

/// Decisions on hot keys skip the lock and the incremental sweep under it, so one in 2^[`SWEEP_BITS`] sweeps. It is chosen
/// by clock and key instead of a counter, which would cost a tenth of the decision.
#[inline(always)]
fn is_sweep_due(hash: u64, now: Timestamp) -> bool {
    // Mixed, because a clock that ticks in step with the callers would select the same few keys.
    (hash ^ now.as_micros()).wrapping_mul(SPREAD) >> (u64::BITS - SWEEP_BITS) == 0
}

#[cold]
#[inline(never)]
fn sweep(shard: &Mutex<Shard>, now: Timestamp) {
    // If the lock is taken, its holder sweeps.
    if let Some(mut shard) = shard.try_lock() {
        shard.sweep(SWEEP_SLOTS, now);
    }
}

/// One in 2^10 hot decisions sweeps this many slots: the same rate as decisions under the lock.
const SWEEP_BITS: u32 = 10;
const SWEEP_SLOTS: usize = 32;
/// 2^64 divided by the golden ratio (Fibonacci hashing): the upper bits of a product depend on all bits of the factor.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
