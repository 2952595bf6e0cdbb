//! Sequence lock: five words that are read together without a lock and replaced together with one atomic exchange.
//!
//! The sequence number is even while the words are stable and odd during a write. A reader reads the number, the words,
//! and the number again; if it is unchanged, the words are consistent. A writer increments the number it has read from
//! even to odd; that fails if another write came in between, so a decision is only stored on the state it was made on.
//! All words are atomics, so a torn read is discarded data, never undefined behaviour.
//!
//! Checked with loom: `RUSTFLAGS="--cfg loom" cargo test -p ratekeeper-memory --release --test loom`.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Five words and their sequence number; fits into one cache line.
#[derive(Debug)]
pub struct SeqLock {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The sequence number at the start of a read.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(u64);

impl SeqLock {
    /// All words zero.
    pub fn new() -> Self {
        Self { sequence: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// A consistent snapshot of the words; `None` during a write.
    #[inline]
    pub fn read(&self) -> Option<(Stamp, [u64; WORDS])> {
        let stamp = self.begin();
        let words = std::array::from_fn(|index| self.word(index));
        self.is_unchanged_since(stamp).then_some((stamp, words))
    }

    /// Starts reading the words one by one. They are consistent if [`is_unchanged_since`](Self::is_unchanged_since)
    /// returns true afterwards.
    #[inline(always)]
    pub fn begin(&self) -> Stamp {
        Stamp(self.sequence.load(Ordering::Acquire))
    }

    /// One of the words.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// Whether there was no write since `begin`, nor during it.
    #[inline(always)]
    pub fn is_unchanged_since(&self, stamp: Stamp) -> bool {
        stamp.0.is_multiple_of(2) && self.is_still(stamp)
    }

    #[inline]
    fn is_still(&self, Stamp(sequence): Stamp) -> bool {
        fence(Ordering::Acquire);
        self.sequence.load(Ordering::Relaxed) == sequence
    }

    /// Replaces the last `N` words, if there was no write since the stamp.
    #[inline]
    pub fn replace_last<const N: usize>(&self, Stamp(sequence): Stamp, last: [u64; N]) -> bool {
        let free = self.sequence.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        // A reader must not see a changed word together with the old, even number.
        fence(Ordering::Release);
        for (word, value) in self.words[WORDS - N..].iter().zip(last) {
            word.store(value, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
        true
    }

    /// Replaces all words and returns the old ones. Spins during concurrent writes.
    pub fn swap(&self, words: [u64; WORDS]) -> [u64; WORDS] {
        loop {
            if let Some((stamp, before)) = self.read()
                && self.replace_last(stamp, words)
            {
                return before;
            }
            #[cfg(not(loom))]
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }
}

impl Default for SeqLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Words in one lock.
pub const WORDS: usize = 5;
