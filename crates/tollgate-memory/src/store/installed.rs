//! Policies that a store has been told about, and the migration of keys that comes with many changes.

use std::fmt;

use tollgate_core::{PlainBucket, StoreError};

use super::MemoryStore;
use crate::{
    clock::Clock,
    hash::Salt,
    policies::{Handle, Policies},
};

/// A policy that a [`MemoryStore`] has been told about. The store keeps the policy while this, a clone of it, or the
/// state of a key refers to it.
#[derive(Clone)]
pub struct InstalledPolicy {
    pub(super) handle: Handle,
    pub(super) short_way: Option<ShortWay>,
}

/// What it takes to decide about a hot key of a policy that is one plain bucket, close at hand.
#[derive(Clone, Copy)]
pub(super) struct ShortWay {
    pub(super) salt: Salt,
    pub(super) bucket: PlainBucket,
}

impl<C: Clock> MemoryStore<C> {
    pub(super) fn installed(&self, handle: Option<Handle>) -> Result<InstalledPolicy, StoreError> {
        let handle = handle.ok_or(StoreError::TooManyPolicies { max: Policies::MOST })?;
        self.migrate_superseded();
        let salt = self.inner.hasher.salt(handle.id);
        let short_way = PlainBucket::of(&handle.version.policy).map(|bucket| ShortWay { salt, bucket });
        Ok(InstalledPolicy { handle, short_way })
    }

    /// While many versions are kept only because keys are counted under them, each installation migrates some of those
    /// keys: so many that all shards are visited in [`PASS`] installations.
    fn migrate_superseded(&self) {
        if self.inner.policies.superseded() <= SUPERSEDED_KEPT {
            return;
        }
        // Another installation is at it.
        let Some(mut turn) = self.inner.migrating.try_lock() else { return };
        let (shards, now) = (self.inner.shards.len(), self.inner.clock.now());
        let mut work = MIGRATION_WORK;
        for _ in 0..shards.div_ceil(PASS) {
            let mut shard = self.inner.shards[*turn % shards].0.lock();
            let share = (shard.slots() * shards).div_ceil(PASS) + FEWEST_SLOTS;
            match shard.migrate(share, work, now) {
                Some(left) => (*turn, work) = ((*turn + 1) % shards, left),
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

/// Superseded versions that are kept until their keys are asked about again. A version takes some hundred bytes.
const SUPERSEDED_KEPT: usize = 1_024;
/// Installations in which all keys are visited.
const PASS: usize = 512;
/// Slots visited at least, so that small tables are done in few installations.
const FEWEST_SLOTS: usize = 16;
/// The most that one installation does: slots visited, and steps of a key from one version to the next. A few
/// milliseconds.
const MIGRATION_WORK: usize = 20_000;
