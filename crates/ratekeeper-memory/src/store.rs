//! The memory store: shards, hot slots, installed policies and a clock.
//!
//! ```text
//! decide_now ─▶ take_one   a hot slot without a lock, else the key's shard under its lock
//!            ├▶ take_many  every shard concerned, locked in ascending order
//!            └▶ other verbs under the lock of the key's shard
//! ```

mod maintenance;
mod policy_handle;
mod take_many;
mod take_one;
mod terms;

use std::{fmt, future, sync::Arc};

use parking_lot::Mutex;
use ratekeeper_core::{
    Ask, Decision, Immediate, InlineLimits, OnQuotaChange, Policy, Store, StoreError, Take, Terms, Timestamp, Verb,
    Verdict,
    bounds::MAX_KEY_BYTES,
    store_api::{Expiring, InspectedKey},
};

pub use self::policy_handle::InstalledPolicy;
use crate::{
    clock::{Clock, SystemClock},
    config::MemoryConfig,
    hash::KeyHasher,
    hot::{Hot, SET_BYTES, SET_KEYS},
    policies::Policies,
    shard::{HashedKey, Shard},
};

/// Keeps limits in process memory. Clones share one store.
///
/// It needs no set-up and no async runtime. Its guarantees about memory and threads are in the
/// [crate documentation](crate).
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    /// Lock-free slots of the busiest keys.
    hot: Arc<Hot>,
    shards: Box<[Padded]>,
    policies: Policies,
    /// The shard at which the next migration pass continues.
    migrating: Mutex<usize>,
    hasher: KeyHasher,
    clock: C,
    budget: usize,
    /// Reservations to be refunded when they expire.
    expiring: Expiring<InstalledPolicy>,
}

/// One shard per two cache lines, against false sharing.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl MemoryStore {
    /// A store on the system clock, with the default budget.
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
    /// A store on the given clock.
    pub fn with_clock(clock: C) -> Self {
        Self::with(MemoryConfig::default(), clock)
    }

    /// A store with the given settings and clock.
    pub fn with(config: MemoryConfig, clock: C) -> Self {
        let hasher = KeyHasher::random();
        // Small budgets get few shards: each needs room for a useful number of keys.
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
        let (policies, migrating, expiring) = (Policies::new(), Mutex::new(0), Expiring::default());
        let budget = config.budget_bytes;
        Self { inner: Arc::new(Inner { hot, shards, policies, migrating, hasher, clock, budget, expiring }) }
    }

    /// Decides at once, without a runtime. See [`Store::decide`].
    #[inline(always)]
    pub fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Take(take)) => self.decide_one(ask, take),
            _ => self.decide_general(asks, verb),
        }
    }

    #[inline(never)]
    fn decide_general(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Commit { id, .. } | Verb::Cancel { id } | Verb::Expire { id }) => {
                self.expire_if_due();
                self.finish(ask, *id, verb)
            }
            ([ask], _) => {
                self.expire_if_due();
                let key = self.hash_key(ask)?;
                let now = self.inner.clock.now();
                Ok(self.shard(key.hash).lock().decide(&key, ask.cost, verb, now))
            }
            (_, Verb::Take(take)) => self.take_many(asks, take, &Terms::NONE),
            _ => Err(StoreError::OneKeyOnly { verb: verb.name(), found: asks.len() }),
        }
    }

    fn expire_if_due(&self) {
        if !self.inner.expiring.is_empty() && self.inner.expiring.is_due(self.inner.clock.now()) {
            self.expire_due(self.inner.clock.now());
        }
    }

    #[inline(always)]
    fn hash_key<'a>(&self, ask: &Ask<'a, InstalledPolicy>) -> Result<HashedKey<'a>, StoreError> {
        let key = ask.key.as_bytes();
        if key.len() > MAX_KEY_BYTES {
            return Err(StoreError::KeyTooLong { found: key.len(), max: MAX_KEY_BYTES });
        }
        Ok(HashedKey::new(&self.inner.hasher, &ask.policy.handle, key))
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

    fn install(&self, policy: Policy, on_change: OnQuotaChange) -> Result<InstalledPolicy, StoreError> {
        self.installed(self.inner.policies.install(policy, on_change))
    }

    fn decide(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        future::ready(self.decide_now(asks, &verb))
    }

    fn decide_with(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: Verb,
        terms: Terms,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        future::ready(self.decide_under(asks, &verb, &terms))
    }

    #[inline]
    fn decide_here(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Option<Decision> {
        self.decide_one::<StoreError>(ask, take).ok()
    }

    async fn inspect(&self, ask: &Ask<'_, InstalledPolicy>) -> Result<Option<InspectedKey>, StoreError> {
        let key = self.hash_key(ask)?;
        let at = self.inner.clock.now();
        let state = self.shard(key.hash).lock().inspect(&key, at);
        Ok(Some(InspectedKey { at, state, held: 0 }))
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn submit(&self, ask: Ask<'_, InstalledPolicy>, verb: Verb) {
        // The only possible error is a key that is too long, and such a key was never charged.
        let _ = self.decide_general(&[ask], &verb);
    }
}

impl<C: Clock> InlineLimits for MemoryStore<C> {
    fn install_variant(&self, policy: Policy) -> Result<InstalledPolicy, StoreError> {
        self.installed(self.inner.policies.install_variant(policy))
    }
}

impl<C: Clock> Immediate for MemoryStore<C> {
    #[inline]
    fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        Self::decide_now(self, asks, verb)
    }

    fn decide_now_with(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: &Verb,
        terms: &Terms,
    ) -> Result<Decision, StoreError> {
        self.decide_under(asks, verb, terms)
    }

    #[inline(always)]
    fn take_now<E: From<StoreError>>(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Decision, E> {
        self.decide_one(ask, take)
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

/// The least bytes of a shard that hold a useful number of keys.
const SMALLEST_SHARD: usize = 16 * 1024;
/// Hot keys at most: 256 KiB of slots, which fit into a CPU cache.
const HOT_KEYS: usize = 4_096;
/// Hot slots take at most one part in this many of the budget.
const HOT_SHARE: usize = 16;
