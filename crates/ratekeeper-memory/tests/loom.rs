//! All interleavings of a few threads on one [`SeqLock`], explored by loom.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p ratekeeper-memory --release --test loom

#![cfg(loom)]

use loom::{sync::Arc, thread};
use ratekeeper_memory::seqlock::SeqLock;

/// Adds one to both counters, as a decision does: read, compute, replace if no other thread has written meanwhile.
fn take(words: &SeqLock) {
    loop {
        if let Some((stamp, [.., at, used])) = words.read()
            && words.replace_last(stamp, [at + 1, used + 1])
        {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn words_are_never_seen_half_replaced() {
    loom::model(|| {
        let words = Arc::new(SeqLock::new());
        let writer = Arc::clone(&words);
        let writing = thread::spawn(move || take(&writer));
        if let Some((_, [.., at, used])) = words.read() {
            assert_eq!(at, used, "torn read");
        }
        writing.join().unwrap();
    });
}

/// Reads word by word, as the fast path does: the words are valid only if no thread wrote meanwhile.
#[test]
fn words_read_one_by_one_belong_together() {
    loom::model(|| {
        let words = Arc::new(SeqLock::new());
        let writer = Arc::clone(&words);
        let writing = thread::spawn(move || {
            writer.swap([7, 7, 1, 5, 5]);
        });
        let stamp = words.begin();
        let read: [u64; 5] = std::array::from_fn(|index| words.word(index));
        if words.is_unchanged_since(stamp) {
            assert!(read == [0; 5] || read == [7, 7, 1, 5, 5], "torn read: {read:?}");
        }
        writing.join().unwrap();
    });
}

#[test]
fn no_take_is_lost_between_two_threads() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let words = Arc::new(SeqLock::new());
        let other = Arc::clone(&words);
        let taking = thread::spawn(move || take(&other));
        take(&words);
        taking.join().unwrap();
        assert_eq!(words.read().map(|(_, words)| words), Some([0, 0, 0, 2, 2]));
    });
}

#[test]
fn a_key_taken_home_takes_every_decision_along() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let words = Arc::new(SeqLock::new());
        words.swap([7, 7, 1, 0, 0]);
        let other = Arc::clone(&words);
        // Decides only while the key is in the slot, as the fast path does.
        let taking = thread::spawn(move || {
            if let Some((stamp, [_, _, tag, at, used])) = other.read()
                && tag == 1
            {
                return other.replace_last(stamp, [at + 1, used + 1]);
            }
            false
        });
        let [_, _, _, at, used] = words.swap([0; 5]);
        let decided = taking.join().unwrap();
        assert_eq!((at, used), (u64::from(decided), u64::from(decided)), "lost decision, or one after the removal");
    });
}
