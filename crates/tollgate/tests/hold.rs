//! Holding one of N places: as many at once as there are, first come first served, and free again whatever happens to
//! the holder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use support::{TestStore, Watched, limiter, limiter_on, millis, settle_down, store};
use tokio::{
    task::JoinHandle,
    time::{Instant, advance, sleep, timeout},
};
use tollgate::{AcquireError, Held, Limiter, Quota, Rule, Store};

const LEASE: Duration = Duration::from_secs(60);

fn places(limit: u64) -> Rule {
    Rule::concurrency("places", limit, LEASE)
}

/// A task that waits for a place, and says when it got it.
fn waiter<S: Store + 'static>(limiter: &Limiter<S>) -> JoinHandle<(Held<S>, Instant)> {
    let limiter = limiter.clone();
    tokio::spawn(async move { (limiter.hold("pool").await.unwrap(), Instant::now()) })
}

async fn free<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.peek("pool").await.unwrap().remaining()
}

#[tokio::test(start_paused = true)]
async fn as_many_hold_at_once_as_there_are_places() {
    let limiter = limiter([places(3)]);
    let (inside, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let (limiter, inside, most) = (limiter.clone(), Arc::clone(&inside), Arc::clone(&most));
        tasks.spawn(async move {
            let held = limiter.hold("pool").await.unwrap();
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(millis(100)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(held);
        });
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(began.elapsed(), millis(1_000), "ten rounds of three, without a pause in between");
    assert_eq!(free(&limiter).await, 3);
}

#[tokio::test(start_paused = true)]
async fn waiters_get_in_in_the_order_they_came() {
    let limiter = limiter([places(1)]);
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

/// Not at the next look, but in the same instant.
#[tokio::test(start_paused = true)]
async fn a_place_given_up_is_taken_at_once() {
    let limiter = limiter([places(1)]);
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
async fn a_heartbeat_keeps_the_place() {
    let limiter = limiter([places(1)]);
    let held = limiter.hold("pool").await.unwrap();
    for _ in 0..10 {
        sleep(LEASE - millis(1)).await;
        assert!(held.heartbeat().await.unwrap());
        assert_eq!(free(&limiter).await, 0);
    }
    sleep(LEASE).await;
    assert!(!held.heartbeat().await.unwrap(), "silent for too long");
    assert_eq!(free(&limiter).await, 1);
}

/// A holder that dies cannot say so. Its lease ends by itself, and the one who waits gets in then.
#[tokio::test(start_paused = true)]
async fn a_crashed_holder_loses_its_place_when_the_lease_ends() {
    let limiter = limiter([places(1)]);
    let began = Instant::now();
    std::mem::forget(limiter.hold("pool").await.unwrap());
    let (_held, since) = waiter(&limiter).await.unwrap();
    assert_eq!(since - began, LEASE);
}

/// One whose lease has ended does not take another's place away by letting go late.
#[tokio::test(start_paused = true)]
async fn letting_go_late_takes_nobodys_place() {
    let limiter = limiter([places(1)]);
    let late = limiter.hold("pool").await.unwrap();
    sleep(LEASE).await;
    let held = limiter.hold("pool").await.unwrap();
    drop(late);
    assert_eq!(free(&limiter).await, 0);
    assert!(held.heartbeat().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_deadline_gives_up_exactly_then() {
    let limiter = limiter([places(1)]);
    let held = limiter.hold("pool").await.unwrap();
    let began = Instant::now();
    let refused = limiter.hold_timeout("pool", millis(250)).await.unwrap_err();
    assert!(matches!(refused, AcquireError::TooLong { .. }), "{refused}");
    assert_eq!(began.elapsed(), millis(250), "a place may come free any time, so it waits");

    drop(held);
    limiter.hold_timeout("pool", Duration::ZERO).await.unwrap().release().await.unwrap();
    assert_eq!(free(&limiter).await, 1);
}

/// Behind another waiter as well as in front; and one that gives up lets the next one through.
#[tokio::test(start_paused = true)]
async fn giving_up_in_the_queue_lets_the_next_one_through() {
    let limiter = limiter([places(1)]);
    let held = limiter.hold("pool").await.unwrap();
    let began = Instant::now();
    let impatient: Vec<_> = (1..=3)
        .map(|turn| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let refused = limiter.hold_timeout("pool", millis(100 * turn)).await.unwrap_err();
                (refused, Instant::now())
            })
        })
        .collect();
    settle_down().await;
    let patient = waiter(&limiter);
    for (turn, task) in (1..=3).zip(impatient) {
        let (refused, since) = task.await.unwrap();
        assert!(matches!(refused, AcquireError::TooLong { .. }), "{refused}");
        assert_eq!(since - began, millis(100 * turn));
    }
    sleep(millis(200)).await;
    drop(held);
    let (_held, since) = patient.await.unwrap();
    assert_eq!(since - began, millis(500));
}

/// A refusal that says "in 0s" would send him back at once, and in vain.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_behind_another_is_told_to_wait() {
    let limiter = limiter([places(1)]);
    let _held = limiter.hold("pool").await.unwrap();
    let patient = waiter(&limiter);
    settle_down().await;
    let refused = limiter.hold_timeout("pool", millis(100)).await.unwrap_err();
    let AcquireError::TooLong { retry_after } = refused else { panic!("{refused}") };
    assert!(retry_after > tollgate::Micros::ZERO);
    patient.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_the_queue() {
    let limiter = limiter([places(1)]);
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

/// Ten thousand holds that are dropped at any moment, waiting or held: every place is there in the end.
#[tokio::test(start_paused = true)]
async fn places_in_are_places_out_ten_thousand_times() {
    let limiter = limiter([places(5)]);
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
    assert!(done > 500, "{done} did their work");
    assert_eq!(free(&limiter).await, 5);
}

#[tokio::test(start_paused = true)]
async fn keys_have_places_of_their_own() {
    let limiter = limiter([places(1)]);
    let _a = limiter.hold("a").await.unwrap();
    let _b = limiter.hold_timeout("b", Duration::ZERO).await.unwrap();
    assert!(limiter.hold_timeout("a", Duration::ZERO).await.is_err());
}

/// A place and a rate under one policy: the hold waits for both, and letting go frees the place only.
#[tokio::test(start_paused = true)]
async fn a_place_and_a_rate_are_waited_for_together() {
    let limiter = limiter([places(1), Rule::token_bucket("rate", Quota::per_second(1))]);
    let began = Instant::now();
    drop(limiter.hold("pool").await.unwrap());
    let held = limiter.hold("pool").await.unwrap();
    assert_eq!(began.elapsed(), millis(1_000));
    let next = waiter(&limiter);
    sleep(millis(2_500)).await;
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert_eq!(since - began, millis(3_500), "the rate had recovered by then");
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
    assert_eq!(free(&limiter).await, 0, "what is used is used");
}

/// A place taken by name and without a guard, for those who keep their own books.
#[tokio::test(start_paused = true)]
async fn a_place_can_be_checked_for_and_released_by_name() {
    let limiter = limiter([places(1)]);
    let lease = limiter.check("pool").await.unwrap().lease.unwrap();
    assert!(!limiter.check("pool").await.unwrap().is_allowed());
    let next = waiter(&limiter);
    settle_down().await;
    assert_eq!(limiter.heartbeat("pool", lease).await.unwrap().lease, Some(lease));
    assert_eq!(limiter.release("pool", lease).await.unwrap().lease, Some(lease));
    let (_held, _) = next.await.unwrap();
    assert_eq!(limiter.release("pool", lease).await.unwrap().lease, None, "once is enough");
    assert_eq!(free(&limiter).await, 0, "and takes nobody else's");
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_those_who_wait() {
    let limiter = limiter([places(1)]);
    std::mem::forget(limiter.hold("pool").await.unwrap());
    let next = waiter(&limiter);
    sleep(millis(10)).await;
    let began = Instant::now();
    let _ = limiter.reset("pool").await.unwrap();
    let (_held, since) = next.await.unwrap();
    assert_eq!(since, began);
}

/// Another limiter on the same store gives its place up. Nobody can tell us, so it is noticed by looking now and then.
#[tokio::test(start_paused = true)]
async fn a_place_given_up_elsewhere_is_noticed_soon() {
    let shared: TestStore = store();
    let (here, elsewhere) = (limiter_on(shared.clone(), [places(1)]), limiter_on(shared, [places(1)]));
    let held = elsewhere.hold("pool").await.unwrap();
    let next = waiter(&here);
    sleep(millis(250)).await;
    let began = Instant::now();
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert!(since - began <= millis(100), "{:?}", since - began);
}

/// The time is up before the answer is there: refused, and the place that was taken is free again.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_granted_too_late_is_given_back() {
    let limiter = limiter_on(Watched::slow(millis(0), millis(300)), [places(1)]);
    let refused = limiter.hold_timeout("pool", millis(200)).await;
    assert!(refused.is_err(), "{refused:?}");
    drop(refused);
    assert_eq!(free(&limiter).await, 1);
}

/// A concurrency rule that comes later is held and waited for like one that was there from the start.
#[tokio::test(start_paused = true)]
async fn a_concurrency_rule_added_later_is_held_as_well() {
    let limiter = limiter([Rule::token_bucket("rate", Quota::per_second(1_000))]);
    limiter.set_rule(places(1)).unwrap();
    let held = limiter.hold("pool").await.unwrap();
    let next = waiter(&limiter);
    sleep(millis(100)).await;
    let began = Instant::now();
    drop(held);
    let (_held, since) = next.await.unwrap();
    assert_eq!(since, began);
}

/// A reservation is a place too: given up by its own name, not by taking away the newest holder's.
#[tokio::test(start_paused = true)]
async fn cancelling_a_reservation_leaves_other_holders_alone() {
    let limiter = limiter([places(2)]);
    let reservation = limiter.reserve("pool", 1).await.unwrap();
    advance(millis(10)).await;
    let held = limiter.hold("pool").await.unwrap();
    let _ = reservation.cancel().await.unwrap();
    assert!(held.heartbeat().await.unwrap(), "the holder still holds");
    held.release().await.unwrap();
    assert_eq!(free(&limiter).await, 2);
}
