//! Handles of installed policies, and the migration of idle keys that limits how many superseded versions stay alive.

use std::fmt;

use ratekeeper_core::{StoreError, store_api::SingleBucket};

use super::MemoryStore;
use crate::{
    clock::Clock,
    hash::Salt,
    policies::{Handle, Policies},
};

/// A policy installed in a [`MemoryStore`]. The store keeps the policy while a handle or the state of a key refers to it.
#[derive(Clone)]
pub struct InstalledPolicy {
    pub(super) handle: Handle,
    pub(super) fast_path: Option<FastPath>,
}

/// What the fast path needs to decide a hot key of a policy with a single bucket.
#[derive(Clone, Copy)]
pub(super) struct FastPath {
    pub(super) salt: Salt,
    pub(super) bucket: SingleBucket,
}

impl<C: Clock> MemoryStore<C> {
    pub(super) fn installed(&self, handle: Option<Handle>) -> Result<InstalledPolicy, StoreError> {
        let handle = handle.ok_or(StoreError::TooManyPolicies { max: Policies::MOST })?;
        self.migrate_superseded();
        let salt = self.inner.hasher.salt(handle.id);
        let fast_path = SingleBucket::of(&handle.version.policy).map(|bucket| FastPath { salt, bucket });
        Ok(InstalledPolicy { handle, fast_path })
    }

    /// While many superseded versions are alive because of their keys, each installation migrates some of those keys:
    /// enough to visit all shards in [`PASS`] installations.
    fn migrate_superseded(&self) {
        if self.inner.policies.superseded() <= SUPERSEDED_KEPT {
            return;
        }
        // A concurrent installation migrates already.
        let Some(mut next_shard) = self.inner.migrating.try_lock() else { return };
        let (shards, now) = (self.inner.shards.len(), self.inner.clock.now());
        let mut work = MIGRATION_WORK;
        for _ in 0..shards.div_ceil(PASS) {
            let mut shard = self.inner.shards[*next_shard % shards].0.lock();
            let share = (shard.slots() * shards).div_ceil(PASS) + FEWEST_SLOTS;
            match shard.migrate(share, work, now) {
                Some(left) => (*next_shard, work) = ((*next_shard + 1) % shards, left),
                None => return,
            }
        }
    }
}

impl fmt::Debug for InstalledPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstalledPolicy").field("policy", &self.handle.version.policy).finish_non_exhaustive()
    }
}

/// Superseded versions that may wait for the next request of their keys. A version takes some hundred bytes.
const SUPERSEDED_KEPT: usize = 1_024;
/// Installations in which all keys are visited.
const PASS: usize = 512;
/// Slots visited at least, so that small tables are finished in few installations.
const FEWEST_SLOTS: usize = 16;
/// The most that one installation does: slots visited plus migration steps. A few milliseconds.
const MIGRATION_WORK: usize = 20_000;
