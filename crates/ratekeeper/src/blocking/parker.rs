//! Polling of a future on the calling thread, which sleeps while it is pending.
//!
//! A separate condition variable per call: the token of `std::thread::park` belongs to the caller's code.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use crate::waiting::Waiting;

/// Set by the waker, awaited by the thread.
#[derive(Default)]
struct Signal {
    is_set: Mutex<bool>,
    set: Condvar,
}

impl Signal {
    /// Sleeps until the signal is set, and clears it; false if the deadline passes before.
    fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            is_set = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.set.wait(is_set).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => self.set.wait_timeout(is_set, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        *is_set = false;
        true
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.set.notify_one();
    }
}

/// The output of the future.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        signal.wait(None);
    }
}

/// The output of the future; `None` if it is not ready in time.
fn block_within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let deadline = Instant::now().checked_add(time);
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if !signal.wait(deadline) {
            return None;
        }
    }
}

/// The wait of a thread. Its futures block when they are polled, so only [`block_on`] may poll them.
pub(super) struct ThreadWaiting;

impl Waiting for ThreadWaiting {
    async fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    async fn within<F: Future + Send>(&self, time: Duration, future: F) -> Option<F::Output>
    where
        F::Output: Send,
    {
        block_within(time, future)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc};

    use super::*;

    /// A future that another thread completes.
    fn completed_elsewhere() -> impl Future<Output = u32> {
        let (sender, wakers) = mpsc::channel::<Waker>();
        let (done, outcome) = mpsc::channel();
        thread::spawn(move || {
            let waker = wakers.recv().unwrap();
            done.send(7).unwrap();
            waker.wake();
        });
        poll_fn(move |context| match outcome.try_recv() {
            Ok(output) => Poll::Ready(output),
            Err(_) => {
                let _ = sender.send(context.waker().clone());
                Poll::Pending
            }
        })
    }

    #[test]
    fn a_future_is_polled_until_it_is_ready() {
        assert_eq!(block_on(completed_elsewhere()), 7);
        assert_eq!(block_within(Duration::from_secs(60), completed_elsewhere()), Some(7));
    }

    #[test]
    fn a_future_that_is_never_ready_ends_with_its_time() {
        assert_eq!(block_within(Duration::from_millis(1), std::future::pending::<()>()), None);
        assert_eq!(block_within(Duration::ZERO, async { 3 }), Some(3), "polled once in any case");
    }

    /// The token of `park` is the caller's.
    #[test]
    fn a_pending_unpark_is_left_to_the_caller() {
        thread::current().unpark();
        assert_eq!(block_on(completed_elsewhere()), 7);
        thread::park(); // returns at once
    }
}
