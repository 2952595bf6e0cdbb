//! Maintenance: size, statistics and manual sweeps.

use super::MemoryStore;
use crate::{clock::Clock, stats::Stats};

impl<C: Clock> MemoryStore<C> {
    /// Keys stored at present, including some that are back to their initial state and not yet swept.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether no key is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that keys and their states take at present.
    pub fn bytes(&self) -> usize {
        let shards: usize = self.inner.shards.iter().map(|shard| shard.0.lock().bytes()).sum();
        shards + self.inner.hot.bytes()
    }

    /// The most bytes they may take.
    pub fn budget_bytes(&self) -> usize {
        self.inner.budget
    }

    /// Policy versions stored at present: one per policy, and superseded ones that keys are still stored under.
    pub fn policy_versions(&self) -> usize {
        self.inner.policies.versions()
    }

    /// Counters since the store was created.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for shard in &self.inner.shards {
            sum += shard.0.lock().stats;
        }
        sum
    }

    /// Examines `keys_per_shard` entries of each shard and removes keys that are back to their initial state. Decisions do
    /// this too, a few keys at a time; call it from a timer to free memory without traffic.
    pub fn sweep(&self, keys_per_shard: usize) {
        let now = self.inner.clock.now();
        for shard in &self.inner.shards {
            shard.0.lock().sweep(keys_per_shard, now);
        }
    }
}
