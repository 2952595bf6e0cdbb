//! Looking after a store: how much it holds, what it has done, and cleaning it by hand.

use super::MemoryStore;
use crate::{clock::Clock, stats::Stats};

impl<C: Clock> MemoryStore<C> {
    /// Keys remembered at present. Some of them may be as good as new and about to go.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether no key is remembered.
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

    /// Policy versions kept at present: one for each policy, and superseded ones that keys are still counted under.
    pub fn policy_versions(&self) -> usize {
        self.inner.policies.versions()
    }

    /// What the store has done so far.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for shard in &self.inner.shards {
            sum += shard.0.lock().stats;
        }
        sum
    }

    /// Looks at so many keys per shard and lets go of those that are as good as new. Decisions do this by themselves,
    /// a few keys at a time; call it from a timer if keys should also go while nobody asks.
    pub fn sweep(&self, keys_per_shard: usize) {
        let now = self.inner.clock.now();
        for shard in &self.inner.shards {
            shard.0.lock().look_around(keys_per_shard, now);
        }
    }
}
