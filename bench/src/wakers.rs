//! The floor of merged calls: tasks that sleep and are woken together, without a store.
//!
//! Each check of a merged call is a task that goes to sleep and is woken when the reply arrives. This does that alone: every
//! task leaves its waker in a separate place and sleeps; one more task wakes all that sleep, as soon as all do or none
//! has come since the last look. No decision is made, nothing is sent, and no lock is shared. A design with a task per
//! caller is hardly faster.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    time::Instant,
};

struct Sleepers {
    /// One place for each task. Empty while the task is awake.
    wakers: Vec<Mutex<Option<Waker>>>,
    asleep: AtomicUsize,
    left: AtomicUsize,
}

impl Sleepers {
    fn place(&self, task: usize) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.wakers[task].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a second tasks are woken, all together.
#[allow(clippy::cast_precision_loss, reason = "a report")]
pub async fn wakes_per_second(tasks: usize, wakes: usize) -> f64 {
    let wakers = (0..tasks).map(|_| Mutex::default()).collect();
    let sleepers = Arc::new(Sleepers { wakers, asleep: AtomicUsize::new(0), left: AtomicUsize::new(tasks) });
    let share = wakes / tasks;
    let began = Instant::now();
    for task in 0..tasks {
        tokio::spawn(sleep_and_wake(Arc::clone(&sleepers), task, share));
    }
    let mut before = 0;
    while sleepers.left.load(SeqCst) > 0 {
        let asleep = sleepers.asleep.load(SeqCst);
        if asleep > 0 && (asleep >= sleepers.left.load(SeqCst) || asleep == before) {
            let woken: Vec<Waker> = (0..tasks).filter_map(|task| sleepers.place(task).take()).collect();
            sleepers.asleep.fetch_sub(woken.len(), SeqCst);
            woken.into_iter().for_each(Waker::wake);
        }
        before = asleep;
        tokio::task::yield_now().await;
    }
    (share * tasks) as f64 / began.elapsed().as_secs_f64()
}

async fn sleep_and_wake(sleepers: Arc<Sleepers>, task: usize, times: usize) {
    for _ in 0..times {
        let mut is_asleep = false;
        poll_fn(|cx| {
            let mut place = sleepers.place(task);
            if is_asleep {
                return if place.is_none() { Poll::Ready(()) } else { Poll::Pending };
            }
            is_asleep = true;
            *place = Some(cx.waker().clone());
            sleepers.asleep.fetch_add(1, SeqCst);
            Poll::Pending
        })
        .await;
    }
    sleepers.left.fetch_sub(1, SeqCst);
}
