//! Configuration of a memory store: byte budget, shards, and behaviour when full.

/// Settings of a [`MemoryStore`](crate::MemoryStore).
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    pub(crate) budget_bytes: usize,
    pub(crate) shards: usize,
    pub(crate) when_full: WhenFull,
}

/// How new keys are decided while the byte budget is full of limited keys, which are never evicted.
///
/// In both cases stored keys keep their counts, a cost above a limit is `never`, and the decision's source is
/// [`Source::Overflow`](ratekeeper_core::Source::Overflow). The condition ends when stored keys are back to their initial
/// state and are swept.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// All new keys of a policy share one count per shard. Together they get one key's limit per shard, so a flood of new
    /// keys is almost entirely denied, legitimate keys included, and inventing keys does not exceed a limit.
    #[default]
    Refuse,
    /// New keys are admitted and not counted: each is decided like a key never seen. Legitimate keys pass, and so does a
    /// flood; [`Stats::unenforced`](crate::Stats::unenforced) counts them. A lease granted this way is not stored, and
    /// releasing it finds nothing.
    Admit,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        Self {
            budget_bytes: DEFAULT_BUDGET,
            shards: (threads * 16).next_power_of_two(),
            when_full: WhenFull::default(),
        }
    }
}

impl MemoryConfig {
    /// The most bytes that keys and their states may take. Default: 256 MiB (about five million keys); at least 64 KiB.
    #[must_use]
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget_bytes = bytes.max(64 * 1024);
        self
    }

    /// How new keys are decided while the budget is full of limited keys.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Number of shards, rounded up to a power of two. Default: 16 per processor; at most 4096.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, 4096).next_power_of_two();
        self
    }
}

/// 256 MiB.
const DEFAULT_BUDGET: usize = 256 << 20;
