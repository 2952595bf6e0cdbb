//! How large a store is, and in how many parts.

/// How a [`MemoryStore`](crate::MemoryStore) is to be made.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    pub(super) budget_bytes: usize,
    pub(super) shards: usize,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        Self { budget_bytes: DEFAULT_BUDGET, shards: (threads * 16).next_power_of_two() }
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
