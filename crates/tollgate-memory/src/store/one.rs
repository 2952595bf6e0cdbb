//! A take of one key: without a lock if it is hot and short, else under that of its shard.

use parking_lot::Mutex;
use tollgate_core::{Ask, Decision, Micros, PlainBucket, PlainTake, StoreError, Take, Verb, Verdict, bounds::MAX_TIME};

use super::{
    MemoryStore,
    installed::{InstalledPolicy, ShortWay},
};
use crate::{
    clock::Clock,
    entry::KeyWords,
    hot::{Visit, WantedKey},
    shard::{Hashed, Shard},
};

impl<C: Clock> MemoryStore<C> {
    /// Decides one take at once, and tells the verdict only: for those who ask millions of times a second and have no use
    /// for the numbers, which then are not worked out.
    #[inline(always)]
    pub fn verdict_now(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Verdict, StoreError> {
        self.take_one(
            ask,
            &take.times(ask.times),
            |bucket, plain, _| bucket.verdict(plain),
            |decision| decision.verdict,
        )
    }

    /// What is here becomes part of the caller, so only the shortest way is: a short key, its hot slot, a plain bucket.
    /// What came of it is told by `tell` here, and from a whole decision by `of` everywhere else.
    ///
    /// The clock comes first because a processor takes longest over it, and can do all the rest meanwhile.
    #[inline(always)]
    fn take_one<T>(
        &self,
        ask: &Ask<'_, InstalledPolicy>,
        take: &Take,
        tell: impl FnOnce(&PlainBucket, PlainTake, Micros) -> T,
        of: impl FnOnce(Decision) -> T,
    ) -> Result<T, StoreError> {
        let inner = &*self.inner;
        let now = inner.clock.now().min(MAX_TIME);
        if let Some(ShortWay { salt, bucket }) = &ask.policy.short_way
            && let Some(words) = KeyWords::of_short(ask.key.as_bytes())
        {
            let hash = inner.hasher.hash_under(*salt, words);
            if !is_time_to_look_around(hash, now) {
                match inner.hot.visit(WantedKey::new(hash, words, ask.policy.handle.version.tag())) {
                    Visit::Here(visited) => {
                        if let Some(plain) = bucket.take(visited.meter, take, now)
                            && bucket.charged(plain, now).is_none_or(|meter| visited.write(meter))
                        {
                            return Ok(tell(bucket, plain, now));
                        }
                    }
                    Visit::Elsewhere => {}
                    Visit::Nowhere => return Ok(of(self.take_cold(ask.policy, ask.key, *take, hash, now).answer)),
                }
            }
        }
        self.take_elsewhere(ask.policy, ask.key, *take, now).answer.map(of)
    }

    #[inline(always)]
    pub(super) fn decide_one(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Decision, StoreError> {
        self.take_one(ask, take, |bucket, plain, now| Decision::of_one(bucket.tell(plain), now), |decision| decision)
    }

    /// A short key that is not hot. (What it is given are copies, so that the caller need not keep anything in memory.)
    #[inline(never)]
    fn take_cold(&self, policy: &InstalledPolicy, key: &str, take: Take, hash: u64, now: Micros) -> Apart<Decision> {
        let key = key.as_bytes();
        let key = Hashed { policy: &policy.handle, key, hash, words: self.inner.hasher.words_of(key) };
        Apart::new(take_locked(self.shard(hash), &key, &take, now))
    }

    /// All other ways.
    #[inline(never)]
    fn take_elsewhere(
        &self,
        policy: &InstalledPolicy,
        key: &str,
        take: Take,
        now: Micros,
    ) -> Apart<Result<Decision, StoreError>> {
        let key = match self.hashed(&Ask::new(policy, key)) {
            Ok(key) => key,
            Err(error) => return Apart::new(Err(error)),
        };
        let shard = self.shard(key.hash);
        let version = &policy.handle.version;
        let wanted = WantedKey::new(key.hash, key.words, version.tag());
        if let Some(rule) = self.inner.hot.take(wanted, &version.policy, &take, now) {
            if is_time_to_look_around(key.hash, now) {
                look_around(shard, now);
            }
            return Apart::new(Ok(Decision::of_one(rule, now)));
        }
        Apart::new(Ok(take_locked(shard, &key, &take, now)))
    }
}

/// Comes back from a call in a place of its own. Left alone, the compiler lets the call write where its caller's answer
/// will be, and then the short way has to write all of it there, too; with this, whoever takes the short way and only
/// wants the verdict works out no more. It takes a little more than the answer itself, or the compiler sees through it.
struct Apart<T> {
    answer: T,
    _more: u64,
}

impl<T> Apart<T> {
    fn new(answer: T) -> Self {
        Self { answer, _more: 0 }
    }
}

#[inline]
fn take_locked(shard: &Mutex<Shard>, key: &Hashed<'_>, take: &Take, now: Micros) -> Decision {
    let mut shard = shard.lock();
    match shard.take_known(key, take, now) {
        Some(rule) => Decision::of_one(rule, now),
        None => shard.decide(key, &Verb::Take(*take), now),
    }
}

/// Hot keys pass the lock by, and with it the cleaning that others do; so now and then one of them does its share. Which
/// one is left to the clock and the key, as good as chance: a count would cost a tenth of the decision.
#[inline(always)]
fn is_time_to_look_around(hash: u64, now: Micros) -> bool {
    // Spread, because a clock that ticks in step with the callers would pick the same few keys again and again.
    (hash ^ now.0).wrapping_mul(SPREAD) >> (u64::BITS - LOOK_BITS) == 0
}

#[cold]
#[inline(never)]
fn look_around(shard: &Mutex<Shard>, now: Micros) {
    // Whoever has the lock cleans as well.
    if let Some(mut shard) = shard.try_lock() {
        shard.look_around(LOOK_AT, now);
    }
}

/// One in 2^10 hot decisions looks around, at so many slots: as many as decisions under the lock do.
const LOOK_BITS: u32 = 10;
const LOOK_AT: usize = 32;
/// 2^64 divided by the golden ratio: a product with it differs in its upper bits wherever the factor differs.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
