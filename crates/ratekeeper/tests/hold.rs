//! `hold`: leases under a concurrency rule. As many at a time as the limit, in arrival order, and released whatever
//! happens to the holder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the unexpected")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ratekeeper::{AcquireError, LeaseGuard, Limiter, Quota, Rule, Store};
use support::{DelayedStore, TestStore, limiter, limiter_on, millis, settle_down, store};
use tokio::{
    task::JoinHandle,
    time::{Instant, advance, sleep, timeout},
};

const LEASE: Duration = Duration::from_secs(60);

fn slots(limit: u64) -> Rule {
    Rule::concurrency("slots", limit, LEASE)
}

/// A task that waits for a lease and returns it with the time of the grant.
fn waiter<S: Store + 'static>(limiter: &Limiter<S>) -> JoinHandle<(LeaseGuard<S>, Instant)> {
    let limiter = limiter.clone();
    tokio::spawn(async move { (limiter.hold("pool").await.unwrap(), Instant::now()) })
}

async fn free<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("pool").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn no_more_leases_at_a_time_than_the_limit() {
    let limiter = limiter([slots(3)]);
    let (held, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let (limiter, held, most) = (limiter.clone(), Arc::clone(&held), Arc::clone(&most));
        tasks.spawn(async move {
            let lease = limiter.hold("pool").await.unwrap();
            most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(millis(100)).await;
            held.fetch_sub(1, Ordering::SeqCst);
            drop(lease);
        });
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(began.elapsed(), millis(1_000), "ten rounds of three, without a pause in between");
    assert_eq!(free(&limiter).await, 3);
}

#[tokio::test(start_paused = true)]
async fn leases_are_granted_in_arrival_order() {
    let limiter = limiter([slots(1)]);
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = limiter.hold("pool").await.unwrap();
    let mut tasks = Vec::new();
    for waiter in 0..10 {
        let (limiter, order) = (limiter.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let _held = limiter.hold("pool").await.unwrap();
            order.lock().unwrap().push(waiter);
            sleep(millis(10)).await;
        }));
        settle_down().await;
    }
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

/// At the instant of the release, not at the next poll.
#[tokio::test(start_paused = true)]
async fn a_released_lease_is_granted_at_once() {
    let limiter = limiter([slots(1)]);
    let began = Instant::now();
    let held = limiter.hold("pool").await.unwrap();
    let (next, last) = (waiter(&limiter), waiter(&limiter));
    sleep(millis(33)).await;
    drop(held);
    let (held, since) = next.await.unwrap();
    assert_eq!(since - began, millis(33));

    sleep(millis(44)).await;
    held.release().await.unwrap();
    let (_held, since) = last.await.unwrap();
    assert_eq!(since - began, millis(77));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_extends_the_lease() {
    let limiter = limiter([slots(1)]);
    let held = limiter.hold("pool").await.unwrap();
    for _ in 0..10 {
        sleep(LEASE - millis(1)).await;
        assert!(held.heartbeat().await.unwrap());
        assert_eq!(free(&limiter).await, 0);
    }
    sleep(LEASE).await;
    assert!(!held.heartbeat().await.unwrap(), "expired without a heartbeat");
    assert_eq!(free(&limiter).await, 1);
}

/// The lease of a holder that crashed expires, and the next waiter gets it then.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_crashed_holder_expires() {
    let limiter = limiter([slots(1)]);
    let began = Instant::now();
    std::mem::forget(limiter.hold("pool").await.unwrap());
    let (_held, since) = waiter(&limiter).await.unwrap();
    assert_eq!(since - began, LEASE);
}

/// The release of an expired lease does not end the lease of another holder.
#[tokio::test(start_paused = true)]
async fn a_late_release_ends_no_other_lease() {
    let limiter = limiter([slots(1)]);
    let late = limiter.hold("pool").await.unwrap();
    sleep(LEASE).await;
    let held = limiter.hold("pool").await.unwrap();
    drop(late);
    assert_eq!(free(&limiter).await, 0);
    assert!(held.heartbeat().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_denied_exactly_at_its_deadline() {
    let limiter = limiter([slots(1)]);
    let held = limiter.hold("pool").await.unwrap();
    let began = Instant::now();
    let denied = limiter.hold_within("pool", millis(250)).await.unwrap_err();
    assert!(matches!(denied, AcquireError::Denied { .. }), "{denied}");
    assert_eq!(began.elapsed(), millis(250), "a lease may be released at any time, so it waits");

    drop(held);
    limiter.hold_within("pool", Duration::ZERO).await.unwrap().release().await.unwrap();
    assert_eq!(free(&limiter).await, 1);
}

/// At any position in the queue. A waiter that leaves does not delay the next one.
#[tokio::test(start_paused = true)]
async fn a_denied_waiter_does_not_delay_the_next_one() {
    let limiter = limiter([slots(1)]);
    let held = limiter.hold("pool").await.unwrap();
    let began = Instant::now();
    let denied: Vec<_> = (1..=3)
        .map(|position| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let denied = limiter.hold_within("pool", millis(100 * position)).await.unwrap_err();
                (denied, Instant::now())
            })
        })
        .collect();
    settle_down().await;
    let last = waiter(&limiter);
    for (position, task) in (1..=3).zip(denied) {
        let (denied, since) = task.await.unwrap();
        assert!(matches!(denied, AcquireError::Denied { .. }), "{denied}");
        assert_eq!(since - began, millis(100 * position));
    }
    sleep(millis(200)).await;
    drop(held);
    let (_held, since) = last.await.unwrap();
    assert_eq!(since - began, millis(500));
}

/// A `retry_after` of zero would make the caller retry at once, too early.
#[tokio::test(start_paused = true)]
async fn a_denial_behind_another_waiter_has_a_retry_after() {
    let limiter = limiter([slots(1)]);
    let _held = limiter.hold("pool").await.unwrap();
    let other = waiter(&limiter);
    settle_down().await;
    let denied = limiter.hold_within("pool", millis(100)).await.unwrap_err();
    let AcquireError::Denied { retry_after } = denied else { panic!("{denied}") };
    assert!(retry_after > Duration::ZERO);
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_the_queue() {
    let limiter = limiter([slots(1)]);
    let held = limiter.hold("pool").await.unwrap();
    let waiters = [waiter(&limiter), waiter(&limiter), waiter(&limiter)];
    settle_down().await;
    waiters[0].abort();
    waiters[1].abort();
    settle_down().await;
    let began = Instant::now();
    drop(held);
    let [_, _, last] = waiters;
    let (_held, since) = last.await.unwrap();
    assert_eq!(since, began);
}

/// Ten thousand holds, dropped at random times while waiting or held: in the end all leases are free.
#[tokio::test(start_paused = true)]
async fn dropped_holds_leave_no_lease_behind() {
    let limiter = limiter([slots(5)]);
    let mut tasks = tokio::task::JoinSet::new();
    for holder in 0..10_000_u64 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let random = holder.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            sleep(millis(random % 5_000)).await;
            let work = async {
                let held = limiter.hold("pool").await.unwrap();
                sleep(millis(random % 7)).await;
                if random % 3 == 0 {
                    held.release().await.unwrap();
                }
            };
            timeout(millis(random % 11), work).await.is_ok()
        });
    }
    let done = tasks.join_all().await.into_iter().filter(|done| *done).count();
    assert!(done > 500, "{done} completed");
    assert_eq!(free(&limiter).await, 5);
}

#[tokio::test(start_paused = true)]
async fn keys_are_limited_separately() {
    let limiter = limiter([slots(1)]);
    let _a = limiter.hold("a").await.unwrap();
    let _b = limiter.hold_within("b", Duration::ZERO).await.unwrap();
    assert!(limiter.hold_within("a", Duration::ZERO).await.is_err());
}

/// A concurrency rule and a rate in one policy: the hold waits for both, and its release frees the lease only.
#[tokio::test(start_paused = true)]
async fn a_lease_and_a_rate_are_waited_for_together() {
    let limiter = limiter([slots(1), Rule::token_bucket("rate", Quota::per_second(1))]);
    let began = Instant::now();
    drop(limiter.hold("pool").await.unwrap());
    let held = limiter.hold("pool").await.unwrap();
    assert_eq!(began.elapsed(), millis(1_000));
    let next = waiter(&limiter);
    sleep(millis(2_500)).await;
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert_eq!(since - began, millis(3_500), "the rate had refilled by then");
}

#[tokio::test(start_paused = true)]
async fn without_a_concurrency_rule_a_hold_is_an_acquire() {
    let limiter = limiter([Rule::token_bucket("rate", Quota::per_second(1))]);
    drop(limiter.hold("pool").await.unwrap());
    let began = Instant::now();
    let held = limiter.hold("pool").await.unwrap();
    assert_eq!(began.elapsed(), millis(1_000));
    assert!(held.heartbeat().await.unwrap());
    held.release().await.unwrap();
    assert_eq!(free(&limiter).await, 0, "a permit of a rate is not returned");
}

/// A lease without a guard, for callers that store its id.
#[tokio::test(start_paused = true)]
async fn a_lease_can_be_taken_and_released_by_id() {
    let limiter = limiter([slots(1)]);
    let lease = limiter.check("pool").await.unwrap().lease.unwrap();
    assert!(!limiter.check("pool").await.unwrap().is_allowed());
    let next = waiter(&limiter);
    settle_down().await;
    assert_eq!(limiter.heartbeat("pool", lease).await.unwrap().lease, Some(lease));
    assert_eq!(limiter.release("pool", lease).await.unwrap().lease, Some(lease));
    let (_held, _) = next.await.unwrap();
    assert_eq!(limiter.release("pool", lease).await.unwrap().lease, None, "released already");
    assert_eq!(free(&limiter).await, 0, "the other lease is still held");
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_waiters() {
    let limiter = limiter([slots(1)]);
    std::mem::forget(limiter.hold("pool").await.unwrap());
    let next = waiter(&limiter);
    sleep(millis(10)).await;
    let began = Instant::now();
    let _ = limiter.reset("pool").await.unwrap();
    let (_held, since) = next.await.unwrap();
    assert_eq!(since, began);
}

/// A release by another limiter on the same store. There is no notification, so it is noticed by polling.
#[tokio::test(start_paused = true)]
async fn a_release_elsewhere_is_noticed_by_polling() {
    let shared: TestStore = store();
    let (here, elsewhere) = (limiter_on(shared.clone(), [slots(1)]), limiter_on(shared, [slots(1)]));
    let held = elsewhere.hold("pool").await.unwrap();
    let next = waiter(&here);
    sleep(millis(250)).await;
    let began = Instant::now();
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert!(since - began <= millis(100), "{:?}", since - began);
}

/// The reply comes after the deadline: denied, and the lease is released again.
#[tokio::test(start_paused = true)]
async fn a_lease_granted_too_late_is_released() {
    let limiter = limiter_on(DelayedStore::slow(millis(0), millis(300)), [slots(1)]);
    let denied = limiter.hold_within("pool", millis(200)).await;
    assert!(denied.is_err(), "{denied:?}");
    drop(denied);
    assert_eq!(free(&limiter).await, 1);
}

/// A concurrency rule added at run time is waited for like any other.
#[tokio::test(start_paused = true)]
async fn a_concurrency_rule_can_be_added_later() {
    let limiter = limiter([Rule::token_bucket("rate", Quota::per_second(1_000))]);
    limiter.set_rule(slots(1)).unwrap();
    let held = limiter.hold("pool").await.unwrap();
    let next = waiter(&limiter);
    sleep(millis(100)).await;
    let began = Instant::now();
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert_eq!(since, began);
}

/// A reservation holds a lease. Its cancellation ends that lease, not the newest one.
#[tokio::test(start_paused = true)]
async fn cancelling_a_reservation_ends_no_other_lease() {
    let limiter = limiter([slots(2)]);
    let reservation = limiter.reserve("pool").await.unwrap();
    advance(millis(10)).await;
    let held = limiter.hold("pool").await.unwrap();
    let _ = reservation.cancel().await.unwrap();
    assert!(held.heartbeat().await.unwrap(), "still held");
    held.release().await.unwrap();
    assert_eq!(free(&limiter).await, 2);
}
