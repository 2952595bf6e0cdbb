//! A few words that are read together without a lock and replaced together with a single atomic exchange.
//!
//! A sequence number stands before the words: even while they are at rest, odd while somebody writes. A reader notes
//! it, reads, and looks again; if it has not moved, what was read belongs together. A writer takes the number it has
//! read from even to odd; that succeeds only if nobody has written since, so what it decided on still holds. All words
//! are atomics, so a torn read is stale data to be thrown away, never undefined behaviour.
//!
//! Checked with loom: `RUSTFLAGS="--cfg loom" cargo test -p tollgate-memory --release --test loom`.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Five words and their sequence number: small enough for one cache line.
#[derive(Debug)]
pub struct SeqLock {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The state of the words when they were read.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(u64);

impl SeqLock {
    /// All words zero.
    pub fn new() -> Self {
        Self { sequence: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// The words as they are at one moment, unless somebody is writing.
    #[inline]
    pub fn read(&self) -> Option<(Stamp, [u64; WORDS])> {
        let stamp = self.begin();
        let words = std::array::from_fn(|index| self.word(index));
        self.was_at_rest_since(stamp).then_some((stamp, words))
    }

    /// When reading the words one by one begins. What has been read belongs together if
    /// [`was_at_rest_since`](Self::was_at_rest_since) says so afterwards.
    #[inline(always)]
    pub fn begin(&self) -> Stamp {
        Stamp(self.sequence.load(Ordering::Acquire))
    }

    /// One of the words.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// Whether nobody was writing when reading began, nor since.
    #[inline(always)]
    pub fn was_at_rest_since(&self, stamp: Stamp) -> bool {
        stamp.0.is_multiple_of(2) && self.is_still(stamp)
    }

    #[inline]
    fn is_still(&self, Stamp(sequence): Stamp) -> bool {
        fence(Ordering::Acquire);
        self.sequence.load(Ordering::Relaxed) == sequence
    }

    /// Replaces the last so many words, if nobody has written since they were read.
    #[inline]
    pub fn replace_last<const N: usize>(&self, Stamp(sequence): Stamp, last: [u64; N]) -> bool {
        let free = self.sequence.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        // No word may be seen changed while the number is still seen even.
        fence(Ordering::Release);
        for (word, value) in self.words[WORDS - N..].iter().zip(last) {
            word.store(value, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
        true
    }

    /// Replaces all words, whatever they are by then, and says what they were.
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

/// How many words there are.
pub const WORDS: usize = 5;
