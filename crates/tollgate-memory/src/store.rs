//! The store: shards, a clock, and what is asked of them.
//!
//! ```text
//! decide_now ─▶ one: a hot slot without a lock, else its shard under one lock
//!            └▶ several: every shard concerned, locked from the lowest up
//! ```

mod care;
mod config;
mod installed;
mod one;
mod several;

use std::{fmt, future, sync::Arc};

use parking_lot::Mutex;
use tollgate_core::{
    Ask, Carry, Decision, Immediate, Micros, Policy, Store, StoreError, Take, Verb, Verdict, bounds::MAX_KEY_BYTES,
};

pub use self::{
    config::{MemoryConfig, WhenFull},
    installed::InstalledPolicy,
};
use crate::{
    clock::{Clock, SystemClock},
    hash::KeyHasher,
    hot::{Hot, SET_BYTES, SET_KEYS},
    policies::Policies,
    shard::{Hashed, Shard},
};

/// Keeps limits in process memory. Clones share it.
///
/// It needs no set-up and no async runtime; what it promises about memory and threads is told in the
/// [crate documentation](crate).
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    /// The busiest keys, decided about without a lock.
    hot: Arc<Hot>,
    shards: Box<[Padded]>,
    policies: Policies,
    /// The shard whose keys are migrated next.
    migrating: Mutex<usize>,
    hasher: KeyHasher,
    clock: C,
    budget: usize,
}

/// One shard to two cache lines, so that neighbours do not slow each other down.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl MemoryStore {
    /// A store on the machine's clock, with the usual budget.
    pub fn new() -> Self {
        Self::with(MemoryConfig::default(), SystemClock::new())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// A store on any clock.
    pub fn with_clock(clock: C) -> Self {
        Self::with(MemoryConfig::default(), clock)
    }

    /// A store of any size on any clock.
    pub fn with(config: MemoryConfig, clock: C) -> Self {
        let hasher = KeyHasher::random();
        // Small budgets get few shards: each needs room for a handful of keys.
        let shards = config.shards.min((config.budget_bytes / SMALLEST_SHARD).max(1).next_power_of_two());
        let budget = config.budget_bytes / shards;
        let sets = (budget / HOT_SHARE / SET_BYTES).min(HOT_KEYS / usize::from(SET_KEYS) / shards);
        let sets = if sets == 0 { 0 } else { 1 << sets.ilog2() };
        let hot = Arc::new(Hot::new(shards, sets));
        let shard = |_| {
            let budget = budget - hot.bytes() / shards;
            Padded(Mutex::new(Shard::new(budget, config.when_full, hasher.clone(), Arc::clone(&hot))))
        };
        let shards = (0..shards).map(shard).collect();
        let (policies, migrating) = (Policies::new(), Mutex::new(0));
        Self { inner: Arc::new(Inner { hot, shards, policies, migrating, hasher, clock, budget: config.budget_bytes }) }
    }

    /// Decides at once, without a runtime. See [`Store::decide`].
    #[inline(always)]
    pub fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Take(take)) if ask.times == 1 => self.decide_one(ask, take),
            _ => self.decide_otherwise(asks, verb),
        }
    }

    #[inline(never)]
    fn decide_otherwise(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Take(take)) => self.decide_one(ask, &take.times(ask.times)),
            ([ask], _) => {
                let key = self.hashed(ask)?;
                let now = self.inner.clock.now();
                Ok(self.shard(key.hash).lock().decide(&key, verb, now))
            }
            (_, Verb::Take(take)) => self.take_several(asks, take),
            _ => Err(StoreError::OneKeyOnly { verb: "this verb", found: asks.len() }),
        }
    }

    #[inline(always)]
    fn hashed<'a>(&self, ask: &Ask<'a, InstalledPolicy>) -> Result<Hashed<'a>, StoreError> {
        let key = ask.key.as_bytes();
        if key.len() > MAX_KEY_BYTES {
            return Err(StoreError::KeyTooLong { found: key.len(), max: MAX_KEY_BYTES });
        }
        Ok(Hashed::new(&self.inner.hasher, &ask.policy.handle, key))
    }

    #[inline]
    fn shard_index(&self, hash: u64) -> usize {
        Hot::shard_of(hash, self.inner.shards.len())
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.inner.shards[self.shard_index(hash)].0
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    type Policy = InstalledPolicy;

    fn install(&self, policy: Policy, carry: Carry) -> Result<InstalledPolicy, StoreError> {
        self.installed(self.inner.policies.install(policy, carry))
    }

    fn install_beside(&self, policy: Policy) -> Result<InstalledPolicy, StoreError> {
        self.installed(self.inner.policies.install_beside(policy))
    }

    fn decide(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        future::ready(self.decide_now(asks, &verb))
    }

    fn now(&self) -> Micros {
        self.inner.clock.now()
    }

    fn tell(&self, ask: Ask<'_, InstalledPolicy>, verb: Verb) {
        // Nobody waits for an answer; the only error there is would be about a key too long to have been used before.
        let _ = self.decide_otherwise(&[ask], &verb);
    }
}

impl<C: Clock> Immediate for MemoryStore<C> {
    #[inline]
    fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        Self::decide_now(self, asks, verb)
    }

    #[inline]
    fn verdict_now(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Verdict, StoreError> {
        Self::verdict_now(self, ask, take)
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("shards", &self.inner.shards.len())
            .field("budget_bytes", &self.inner.budget)
            .finish_non_exhaustive()
    }
}

/// A shard with less than this could not hold a useful number of keys.
const SMALLEST_SHARD: usize = 16 * 1024;
/// Keys that may be hot at one time: a quarter of a megabyte, which a processor's cache holds.
const HOT_KEYS: usize = 4_096;
/// The part of the budget that hot slots may take.
const HOT_SHARE: usize = 16;
