//! Policies that a store has been told about, and how it is told.

use std::{fmt, sync::Arc};

use tollgate_core::{PlainBucket, Policy, StoreError};

use super::MemoryStore;
use crate::{
    clock::Clock,
    entry::VersionId,
    hash::Salt,
    hot::Tag,
    policies::{Policies, PolicyId},
    shard::Shard,
};

/// A policy that a [`MemoryStore`] has been told about.
#[derive(Clone)]
pub struct InstalledPolicy {
    pub(super) id: PolicyId,
    /// The version this was returned for. Hot keys are decided about under it as long as it is the newest; after that
    /// the shards, which know the newest, decide.
    pub(super) version: VersionId,
    /// The same, if it stands beside others and is always meant.
    pub(super) beside: Option<VersionId>,
    pub(super) policy: Arc<Policy>,
    pub(super) short_way: Option<ShortWay>,
}

/// What it takes to decide about a hot key of a policy that is one plain bucket, close at hand.
#[derive(Clone, Copy)]
pub(super) struct ShortWay {
    pub(super) salt: Salt,
    pub(super) tag: Tag,
    pub(super) bucket: PlainBucket,
}

impl<C: Clock> MemoryStore<C> {
    /// Tells every shard.
    pub(super) fn install_as(
        &self,
        policy: Policy,
        install: impl Fn(&mut Shard, &Arc<Policy>, Option<PolicyId>) -> Option<PolicyId>,
    ) -> Result<InstalledPolicy, StoreError> {
        let policy = Arc::new(policy);
        // Every shard numbers policies alike, because each is told of all of them in the same order: installs take
        // the locks one by one from the first, so that none overtakes another.
        let mut first = self.inner.shards[0].0.lock();
        // And so one of them is asked who it is.
        let known = first.policies.find(policy.domain(), policy.name());
        let full = StoreError::TooManyPolicies { max: Policies::MOST };
        let id = install(&mut first, &policy, known).ok_or(full)?;
        for shard in &self.inner.shards[1..] {
            install(&mut shard.0.lock(), &policy, known);
        }
        let (version, _) = first.policies.newest(id);
        let (salt, tag) = (self.inner.hasher.salt(id), Tag::new(version));
        let short_way = PlainBucket::of(&policy).map(|bucket| ShortWay { salt, tag, bucket });
        Ok(InstalledPolicy { id, version, beside: None, policy, short_way })
    }
}

impl fmt::Debug for InstalledPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstalledPolicy").field("policy", &self.policy).finish_non_exhaustive()
    }
}
