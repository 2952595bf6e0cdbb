//! Installed policies of inline limits, bounded: the least recently used one makes room for a new one.
//!
//! Dropping a policy loses no counts: its keys stay in the store, and the same limit is installed again with its next
//! request. A lookup takes the read lock of one of [`SHARDS`] shards and writes nothing, unless a policy was added to the
//! shard since the entry was last used.
//!
//! Bound: [`MAX_INLINE_LIMITS`] policies.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::RwLock;

use crate::{request::RequestError, rulebook::PolicyEntry, telemetry::Telemetry};

/// Policies by the numbers that came with requests.
#[derive(Debug)]
pub(super) struct PolicyTable<K> {
    hasher: RandomState,
    shards: [TableShard<K>; SHARDS],
}

#[derive(Debug)]
struct TableShard<K> {
    policies: RwLock<HashMap<K, CachedPolicy>>,
    /// Policies added so far: the clock of `last_used`.
    added: AtomicU64,
}

#[derive(Debug)]
struct CachedPolicy {
    entry: Arc<PolicyEntry>,
    /// `added` at the last use.
    last_used: AtomicU64,
}

impl<K: Eq + Hash> PolicyTable<K> {
    pub(super) fn new() -> Self {
        let shards = std::array::from_fn(|_| TableShard { policies: RwLock::default(), added: AtomicU64::new(0) });
        Self { hasher: RandomState::new(), shards }
    }

    /// The policy of this key, installed by `make` if it is not there.
    #[inline]
    pub(super) fn get<Q: Eq + Hash + ?Sized>(
        &self,
        key: &Q,
        owned: impl FnOnce() -> K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<PolicyEntry, RequestError>,
    ) -> Result<Arc<PolicyEntry>, RequestError>
    where
        K: Borrow<Q>,
    {
        let shard = &self.shards[usize::try_from(self.hasher.hash_one(key)).unwrap_or(0) % SHARDS];
        if let Some(slot) = shard.policies.read().get(key) {
            let added = shard.added.load(Relaxed);
            if slot.last_used.load(Relaxed) != added {
                slot.last_used.store(added, Relaxed);
            }
            return Ok(Arc::clone(&slot.entry));
        }
        shard.add(owned(), telemetry, make)
    }

    /// One of the policies, if there are any.
    pub(super) fn any(&self) -> Option<Arc<PolicyEntry>> {
        self.shards.iter().find_map(|shard| shard.policies.read().values().next().map(|slot| Arc::clone(&slot.entry)))
    }
}

impl<K: Eq + Hash> TableShard<K> {
    #[cold]
    fn add(
        &self,
        key: K,
        telemetry: &Telemetry,
        make: impl FnOnce() -> Result<PolicyEntry, RequestError>,
    ) -> Result<Arc<PolicyEntry>, RequestError> {
        let mut policies = self.policies.write();
        // Another request may have added it meanwhile.
        if let Some(slot) = policies.get(&key) {
            return Ok(Arc::clone(&slot.entry));
        }
        let entry = Arc::new(make()?);
        if policies.len() >= PER_SHARD {
            evict(&mut policies);
            telemetry.evicted_inline_limits.inc();
        }
        let last_used = AtomicU64::new(self.added.fetch_add(1, Relaxed) + 1);
        policies.insert(key, CachedPolicy { entry: Arc::clone(&entry), last_used });
        Ok(entry)
    }
}

/// Removes the least recently used policy.
fn evict<K>(policies: &mut HashMap<K, CachedPolicy>) {
    let Some(oldest) = policies.values().map(|slot| slot.last_used.load(Relaxed)).min() else { return };
    let mut is_removed = false;
    policies.retain(|_, slot| {
        let keeps = is_removed || slot.last_used.load(Relaxed) != oldest;
        is_removed |= !keeps;
        keeps
    });
}

/// Shards of a table, a power of two.
const SHARDS: usize = 16;
const PER_SHARD: usize = MAX_INLINE_LIMITS / SHARDS;

/// The most sets of numbers of each kind that a server keeps installed.
pub const MAX_INLINE_LIMITS: usize = 4_096;
