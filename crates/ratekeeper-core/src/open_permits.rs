//! Open permits: a lock-free counter that threads take permits from, and that one owner opens and closes.
//!
//! One word has the permits that are left and the number of the opening, which is odd while the counter is open. A take
//! reads the word, then the terms of the opening (such as the time at which it ends), and subtracts its cost with one
//! compare-and-swap. The owner closes the counter to learn what was used, and opens it again with other terms.
//!
//! Why this is safe:
//!
//! - **A take belongs to one opening.** The compare-and-swap fails if the counter was closed since the word was read,
//!   because each opening has another number. So a take uses permits of the opening whose terms it has read, and never
//!   one that was closed: what the owner finds after [`close`](OpenPermits::close) is final.
//! - **No take is lost.** Opened permits = taken + left, since `close` exchanges the word, and every take is before that
//!   exchange or fails.
//! - **Terms are those of the opening.** They are written while the counter is closed. A take that has read the word of an
//!   opening sees its terms (acquire on the word, release at [`open`](OpenPermits::open)); one that has read terms of a
//!   later opening fails (its compare-and-swap releases, `close` acquires).
//! - **Marks.** A take may leave a mark with the number of its opening. `close` returns those of its opening; a mark that
//!   is written later has an old number and never counts.
//!
//! Numbers have 31 bits. A thread that stops between the two steps of a take would have to sleep through 2^31 openings, and
//! find the same number of permits, to be mistaken. There are a few openings a millisecond at most.
//!
//! Checked with loom: `RUSTFLAGS="--cfg loom" cargo test -p ratekeeper-core --release --test loom`.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// A counter of permits with `TERMS` numbers that belong to its opening, and places for `MARKS` marks. New ones are
/// closed. The owner serializes [`close`](Self::close) and [`open`](Self::open), by a lock for example.
#[derive(Debug)]
#[repr(align(64))]
pub struct OpenPermits<const TERMS: usize, const MARKS: usize> {
    /// The number of the opening, and the permits that are left in the lower half.
    word: AtomicU64,
    terms: [AtomicU64; TERMS],
    /// The number of the opening, and what was marked in the lower half.
    marks: [AtomicU64; MARKS],
}

/// The counter as a thread has seen it.
#[derive(Clone, Copy, Debug)]
pub struct SeenPermits(u64);

/// What an opening has left when it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClosedPermits<const MARKS: usize> {
    /// Permits that were not taken.
    pub left: u64,
    /// Marks of takes of this opening. Not all of them: later ones replace earlier ones, and one that is not written yet
    /// is missing.
    pub marks: [Option<u32>; MARKS],
}

impl SeenPermits {
    /// Permits that were left. 0 if the counter was closed.
    #[inline(always)]
    pub fn permits(self) -> u64 {
        self.0 & PERMITS
    }

    /// Whether the counter was open.
    #[inline(always)]
    pub fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    #[inline(always)]
    fn is_same_opening(self, other: u64) -> bool {
        (self.0 ^ other) <= PERMITS
    }
}

impl<const TERMS: usize, const MARKS: usize> OpenPermits<TERMS, MARKS> {
    /// A closed counter.
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            terms: std::array::from_fn(|_| AtomicU64::new(0)),
            marks: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Starts a take, or a look.
    #[inline(always)]
    pub fn look(&self) -> SeenPermits {
        SeenPermits(self.word.load(Ordering::Acquire))
    }

    /// A term. It is one of the opening that was seen if a [`take`](Self::take) succeeds afterwards, or if
    /// [`is_unchanged_since`](Self::is_unchanged_since) is true.
    #[inline(always)]
    pub fn term(&self, index: usize) -> u64 {
        self.terms[index].load(Ordering::Relaxed)
    }

    /// Whether the opening is still the one that was seen, so that the terms read meanwhile belong to it.
    #[inline(always)]
    pub fn is_unchanged_since(&self, seen: SeenPermits) -> bool {
        fence(Ordering::Acquire);
        seen.is_open() && seen.is_same_opening(self.word.load(Ordering::Relaxed))
    }

    /// Takes permits of the opening that was seen, and returns how many are left. `None` if there are not enough, or if it
    /// was closed since.
    #[inline(always)]
    pub fn take(&self, seen: SeenPermits, cost: u64, mark: Option<u32>) -> Option<u64> {
        let (mut word, mut attempt) = (seen.0, 0);
        if !seen.is_open() {
            return None;
        }
        loop {
            let left = (word & PERMITS).checked_sub(cost)?;
            match self.word.compare_exchange_weak(word, word - cost, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    if let Some(mark) = mark {
                        self.mark(word, left, mark);
                    }
                    return Some(left);
                }
                Err(now) if seen.is_same_opening(now) => word = now,
                Err(_) => return None,
            }
            back_off(attempt);
            attempt += 1;
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the remainder is below the number of marks")]
    fn mark(&self, word: u64, left: u64, mark: u32) {
        if let Some(place) = left.checked_rem(MARKS as u64) {
            self.marks[place as usize].store((word & !PERMITS) | u64::from(mark), Ordering::Relaxed);
        }
    }

    /// Closes the counter: no permit is taken any more. `None` if it is closed.
    pub fn close(&self) -> Option<ClosedPermits<MARKS>> {
        // Only the owner changes the number.
        let number = self.word.load(Ordering::Relaxed) & !PERMITS;
        if number & OPEN == 0 {
            return None;
        }
        let before = self.word.swap(number.wrapping_add(OPEN), Ordering::AcqRel);
        let marks = std::array::from_fn(|place| {
            let mark = self.marks[place].load(Ordering::Relaxed);
            #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
            (mark & !PERMITS == number).then_some(mark as u32)
        });
        Some(ClosedPermits { left: before & PERMITS, marks })
    }

    /// Opens the closed counter with new permits, [`MOST_OPEN`] at most, and returns how many they are.
    pub fn open(&self, permits: u64, terms: [u64; TERMS]) -> u64 {
        let (number, permits) = (self.word.load(Ordering::Relaxed) & !PERMITS, permits.min(MOST_OPEN));
        debug_assert_eq!(number & OPEN, 0, "it is closed");
        // A thread that reads a new term must not find the old number afterwards.
        fence(Ordering::Release);
        for (term, value) in self.terms.iter().zip(terms) {
            term.store(value, Ordering::Relaxed);
        }
        self.word.store(number.wrapping_add(OPEN) | permits, Ordering::Release);
        permits
    }
}

impl<const TERMS: usize, const MARKS: usize> Default for OpenPermits<TERMS, MARKS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Spins before a retry, longer each time: moving the cache line between cores costs more than letting one thread make
/// several takes in a row.
#[cold]
#[inline(never)]
fn back_off(attempt: u32) {
    #[cfg(not(loom))]
    for _ in 0..32 << attempt.min(4) {
        std::hint::spin_loop();
    }
    #[cfg(loom)]
    {
        let _ = attempt;
        loom::thread::yield_now();
    }
}

/// The lower half of the word.
const PERMITS: u64 = MOST_OPEN;
/// The lowest bit of the number.
const OPEN: u64 = 1 << 32;
/// The most permits that can be open at a time.
pub const MOST_OPEN: u64 = (1 << 32) - 1;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Counter = OpenPermits<1, 2>;

    #[test]
    fn takes_and_what_is_left_add_up() {
        let counter = Counter::new();
        assert_eq!(counter.open(10, [7]), 10);
        let seen = counter.look();
        assert_eq!((seen.permits(), counter.term(0)), (10, 7));
        assert_eq!(counter.take(seen, 3, None), Some(7));
        assert_eq!(counter.take(counter.look(), 8, None), None);
        assert!(counter.is_unchanged_since(seen));
        assert_eq!(counter.close().map(|closed| closed.left), Some(7));
        assert_eq!(counter.close(), None);
        assert_eq!(counter.take(counter.look(), 1, None), None);
    }

    /// Also if as many permits are left as before.
    #[test]
    fn a_take_of_an_earlier_opening_fails() {
        let counter = Counter::new();
        counter.open(10, [1]);
        let seen = counter.look();
        counter.close();
        counter.open(10, [2]);
        assert!(!counter.is_unchanged_since(seen));
        assert_eq!(counter.take(seen, 1, None), None);
        assert_eq!(counter.look().permits(), 10);
    }

    #[test]
    fn marks_are_those_of_the_opening() {
        let counter = Counter::new();
        counter.open(10, [1]);
        assert_eq!(counter.take(counter.look(), 1, Some(5)), Some(9));
        assert_eq!(counter.close().map(|closed| closed.marks), Some([None, Some(5)]));
        counter.open(9, [1]);
        assert_eq!(counter.take(counter.look(), 1, Some(6)), Some(8));
        assert_eq!(counter.close().map(|closed| closed.marks), Some([Some(6), None]));
    }

    #[test]
    fn more_permits_than_fit_are_not_opened() {
        let counter = Counter::new();
        assert_eq!(counter.open(u64::MAX, [1]), MOST_OPEN);
        assert_eq!(counter.close().map(|closed| closed.left), Some(MOST_OPEN));
    }

    /// The number wraps after 2^31 openings; the permits are not touched by that.
    #[test]
    fn numbers_wrap() {
        let counter = Counter { word: AtomicU64::new(!PERMITS - OPEN), ..Counter::new() };
        for _ in 0..3 {
            assert_eq!(counter.open(5, [1]), 5);
            assert_eq!(counter.take(counter.look(), 1, None), Some(4));
            assert_eq!(counter.close().map(|closed| closed.left), Some(4));
        }
    }
}
