//! The limiter for threads: the same results as for tasks, without a runtime.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the unexpected")]
#![cfg(all(feature = "memory", feature = "tokio"))]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ratekeeper::{AcquireError, BlockingLimiter, Limiter, ManualClock, MemoryStore, Quota, Rule};

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(rule: Rule) -> BlockingLimiter {
    Limiter::builder().rule(rule).build().unwrap().blocking()
}

fn on_manual_clock(rule: Rule) -> BlockingLimiter<MemoryStore<ManualClock>> {
    Limiter::builder().rule(rule).clock(ManualClock::default()).build().unwrap().blocking()
}

#[test]
fn every_verb_has_its_result() {
    let limiter = on_manual_clock(Rule::token_bucket("hour", Quota::per_hour(10)));
    assert_eq!(limiter.check(("u", 4)).unwrap().remaining(), 6);
    assert_eq!(limiter.refund(("u", 1)).unwrap().remaining(), 7);
    assert_eq!(limiter.penalize(("u", 2)).unwrap().remaining(), 5);
    assert_eq!(limiter.settle(("u", 4), 1).unwrap().remaining(), 8);
    let reservation = limiter.reserve(("u", 5)).unwrap();
    assert_eq!((reservation.cost(), reservation.wait(), reservation.decision().remaining()), (5, Duration::ZERO, 3));
    assert_eq!(reservation.settle(2).unwrap().remaining(), 6);
    assert_eq!(limiter.reserve(("u", 5)).unwrap().cancel().unwrap().remaining(), 6);
    assert!(!limiter.block("u", MINUTE).unwrap().is_allowed() || !limiter.check("u").unwrap().is_allowed());
    assert_eq!(limiter.reset("u").unwrap().remaining(), 10);
    assert_eq!(limiter.peek("u").unwrap().remaining(), 10);
}

/// Ten threads take 500 permits of 300: exactly 300 are admitted.
#[test]
fn threads_never_take_more_than_the_limit() {
    let limiter = on_manual_clock(Rule::sliding_log("minute", Quota::per_minute(300)));
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..50 {
                    if limiter.check("shared").unwrap().is_allowed() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 300);
}

/// The last of 20 permits at 5 ms each is due 100 ms after the first: no thread may be earlier.
#[test]
fn acquire_parks_each_thread_for_its_wait() {
    let limiter = limiter(Rule::token_bucket("even", Quota::per_second(200).burst(1)));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| drop(limiter.acquire("partner").unwrap())));
        }
    });
    assert!(began.elapsed() >= Duration::from_millis(95), "20 permits at 200 per second in {:?}", began.elapsed());
}

#[test]
fn a_wait_longer_than_the_timeout_is_denied_at_once_and_charges_nothing() {
    let limiter = on_manual_clock(Rule::token_bucket("hour", Quota::per_hour(1)));
    limiter.acquire("u").unwrap();
    match limiter.acquire_within("u", Duration::from_secs(10)) {
        Err(AcquireError::Denied { retry_after }) => assert_eq!(retry_after, Duration::from_secs(3_600)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(limiter.acquire(("u", 2)), Err(AcquireError::ExceedsLimit { cost: 2, limit: 1 })));
}

/// 24 threads, 3 leases: never more than three at a time, and every thread gets one.
#[test]
fn no_more_leases_at_a_time_than_the_limit() {
    let limiter = limiter(Rule::concurrency("slots", 3, MINUTE));
    let (held, most, served) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let lease = limiter.hold("pool").unwrap();
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                assert!(lease.heartbeat().unwrap());
                thread::yield_now();
                held.fetch_sub(1, Ordering::SeqCst);
                served.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(served.into_inner(), 24);
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
    assert_eq!(limiter.peek("pool").unwrap().remaining(), 3);
}

#[test]
fn a_wait_for_a_lease_ends_with_its_timeout() {
    let limiter = limiter(Rule::concurrency("slot", 1, MINUTE));
    let lease = limiter.hold("pool").unwrap();
    assert!(matches!(
        limiter.hold_within("pool", Duration::from_millis(5)),
        Err(AcquireError::Denied { retry_after }) if retry_after <= MINUTE
    ));
    lease.release().unwrap();
    drop(limiter.hold_within("pool", Duration::ZERO).unwrap());
}

/// A lease that a task releases wakes a thread, and one that a thread releases wakes a task.
#[test]
fn threads_and_tasks_wait_in_one_queue() {
    let blocking = limiter(Rule::concurrency("slot", 1, MINUTE));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let by_task = runtime.block_on(blocking.limiter().hold("pool")).unwrap();
    let waiter = thread::spawn({
        let blocking = blocking.clone();
        move || blocking.hold("pool").unwrap()
    });
    thread::sleep(Duration::from_millis(5));
    drop(by_task);
    let by_thread = waiter.join().unwrap();
    let limiter = blocking.limiter().clone();
    let task = runtime.spawn(async move { drop(limiter.hold("pool").await.unwrap()) });
    drop(by_thread);
    runtime.block_on(task).unwrap();
}

/// Blocking in a task is a mistake of the caller, but neither a panic nor a deadlock.
#[test]
fn a_call_in_a_task_works() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = limiter(Rule::token_bucket("even", Quota::per_second(1_000).burst(1)));
    runtime.block_on(async {
        limiter.acquire("u").unwrap();
        limiter.acquire("u").unwrap();
    });
}

#[test]
fn a_panicking_thread_releases_its_lease() {
    let limiter = limiter(Rule::concurrency("slot", 1, MINUTE));
    let shared = Arc::new(limiter.clone());
    let panicked = thread::spawn(move || {
        let _lease = shared.hold("pool").unwrap();
        std::panic::resume_unwind(Box::new("stop"));
    });
    assert!(panicked.join().is_err());
    assert_eq!(limiter.peek("pool").unwrap().remaining(), 1);
}
