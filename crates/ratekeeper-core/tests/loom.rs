//! All interleavings of a few threads on one [`OpenPermits`], explored by loom.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p ratekeeper-core --release --test loom
//!
//! The owner does what the holder of an allotment does: it closes the counter to report what was used (a call), opens it
//! again with more permits and a later end (a refill), or closes it for good (an end, a recall).

#![cfg(loom)]

use loom::{sync::Arc, thread};
use ratekeeper_core::store_api::OpenPermits;

/// The end of the opening, twice, so that terms of two openings would be noticed.
type Counter = OpenPermits<2, 1>;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

/// Takes one permit before the end, as a check does. Returns the end of the opening that it was taken from.
fn take(counter: &Counter, now: u64) -> Option<u64> {
    let seen = counter.look();
    let (end, same) = (counter.term(0), counter.term(1));
    if now >= end {
        return None;
    }
    counter.take(seen, 1, Some(1))?;
    assert_eq!(end, same, "terms of two openings");
    Some(end)
}

fn left(counter: &Counter) -> u64 {
    counter.close().map_or(0, |closed| closed.left)
}

/// Take against take against call: every permit is used once, and each use is in exactly one report.
#[test]
fn no_use_is_lost_and_none_is_counted_twice() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(2, [10, 10]);
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let counter = Arc::clone(&counter);
                thread::spawn(move || u64::from(take(&counter, 0).is_some()))
            })
            .collect();
        let kept = left(&counter);
        let first_report = 2 - kept;
        counter.open(kept, [10, 10]);
        let used: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        let second_report = kept - left(&counter);
        assert_eq!(first_report + second_report, used);
    });
}

/// Take against refill: a permit is used before the end of the opening that it belongs to, and is reported with it.
#[test]
fn a_use_belongs_to_the_opening_whose_end_it_has_read() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(1, [10, 10]);
        let other = Arc::clone(&counter);
        let taking = thread::spawn(move || [take(&other, 5), take(&other, 5)]);
        let used_before = 1 - left(&counter);
        counter.open(1, [20, 20]);
        let ends = taking.join().unwrap();
        let used_after = 1 - left(&counter);
        let of = |end: u64| ends.iter().filter(|taken| **taken == Some(end)).count() as u64;
        assert_eq!((used_before, used_after), (of(10), of(20)));
    });
}

/// Take against end: nothing is used after the counter was closed, nor after the end that was read.
#[test]
fn nothing_is_used_after_the_end() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(2, [10, 10]);
        let other = Arc::clone(&counter);
        let taking = thread::spawn(move || {
            assert_eq!(take(&other, 10), None, "after its end");
            u64::from(take(&other, 9).is_some())
        });
        let used = 2 - left(&counter);
        // Ended: what the owner has found is final.
        assert_eq!(take(&counter, 0), None, "after it was closed");
        assert_eq!(taking.join().unwrap(), used);
    });
}

/// Take against a recall and a new grant: the permits that were recalled are not used, although as many are open again.
#[test]
fn recalled_permits_are_not_used() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(1, [10, 10]);
        let other = Arc::clone(&counter);
        let taking = thread::spawn(move || {
            let seen = other.look();
            thread::yield_now();
            (seen, other.take(seen, 1, None))
        });
        let recalled = left(&counter);
        counter.open(1, [10, 10]);
        let (seen, taken) = taking.join().unwrap();
        let granted = left(&counter);
        match taken {
            // Before the recall, or after the grant.
            Some(_) => assert_eq!(recalled + granted, 1),
            None => assert_eq!((recalled, granted), (1, 1), "{seen:?}"),
        }
    });
}

/// A denial is read without a change: the numbers belong together if the opening is the same afterwards.
#[test]
fn terms_that_were_only_read_belong_together() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(0, [1, 1]);
        let other = Arc::clone(&counter);
        let reading = thread::spawn(move || {
            let seen = other.look();
            let terms = [other.term(0), other.term(1)];
            if other.is_unchanged_since(seen) {
                assert_eq!(terms[0], terms[1], "terms of two openings");
            }
        });
        counter.close();
        counter.open(0, [2, 2]);
        reading.join().unwrap();
    });
}

/// A mark that is returned belongs to a use of that opening. One that is written later is not taken for one of the next.
#[test]
fn marks_of_an_earlier_opening_do_not_count() {
    model(|| {
        let counter = Arc::new(Counter::new());
        counter.open(1, [10, 10]);
        let other = Arc::clone(&counter);
        let taking = thread::spawn(move || take(&other, 0));
        let first = counter.close().unwrap();
        assert!(first.marks[0].is_none() || first.left == 0, "{first:?}");
        counter.open(1, [20, 20]);
        let second = counter.close().unwrap();
        assert!(second.marks[0].is_none() || second.left == 0, "{second:?}");
        taking.join().unwrap();
    });
}
