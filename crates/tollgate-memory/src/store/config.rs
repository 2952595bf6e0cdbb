//! How large a store is, and in how many parts.

/// How a [`MemoryStore`](crate::MemoryStore) is to be made.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    pub(super) budget_bytes: usize,
    pub(super) shards: usize,
    pub(super) when_full: WhenFull,
}

/// What newcomers get while the byte budget is full of keys that are being limited, which are never evicted.
///
/// Known keys keep their counts either way, a cost above a limit is refused as `never` either way, and either way the
/// decision's source is [`Source::Overflow`](tollgate_core::Source::Overflow). It ends when keys are back to their
/// initial state and leave.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// All newcomers of a policy share one count per shard. Together they get one key's limit per shard, so in a
    /// flood of new keys nearly all of them are refused, honest ones included; and no limit is exceeded by inventing
    /// keys.
    #[default]
    Refuse,
    /// Newcomers are admitted and not counted: each is answered like a key that was never seen. Honest newcomers pass,
    /// and so does a flood; [`Stats::unenforced`](crate::Stats::unenforced) says how often. A lease that is granted this
    /// way has no holder, and releasing it finds nothing.
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
    /// The most bytes that keys and their states may take; 256 MiB (some five million keys) unless said otherwise.
    /// At least 64 KiB.
    #[must_use]
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget_bytes = bytes.max(64 * 1024);
        self
    }

    /// What newcomers get while the budget is full of keys that are being limited.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// How many parts the keys are split into, rounded up to a power of two; sixteen per processor unless said
    /// otherwise. At most 4096.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, 4096).next_power_of_two();
        self
    }
}

/// 256 MiB.
const DEFAULT_BUDGET: usize = 256 << 20;
