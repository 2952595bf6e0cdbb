//! The limiter for threads: methods that return results instead of futures.
//!
//! [`BlockingLimiter`] asks the same [`Limiter`]. Its futures are polled on the calling thread, which is parked while they
//! are pending ([`parker`]). A wait for permits parks the thread for its length, without polling the store, and waits for
//! leases queue in arrival order together with those of tasks.

#[cfg(feature = "redis")]
mod background;
mod guards;
#[cfg(feature = "redis")]
mod open;
mod parker;

use std::{fmt, future::Future, time::Duration};

use ratekeeper_core::{Decision, Immediate, LeaseId, Store};
use tokio::runtime::Handle;

pub use self::guards::{BlockingLease, BlockingReservation};
#[cfg(feature = "redis")]
pub use self::open::OpenBlockingError;
use self::parker::ThreadWaiting;
use crate::{
    acquire::Acquired,
    error::{AcquireError, RequestError, UnknownPolicy},
    limiter::{DefaultStore, Limiter},
    request::Request,
};

/// Decides requests for threads. Clones share one limiter.
///
/// ```
/// use std::{thread, time::Duration};
/// use ratekeeper::{Limiter, Rule};
///
/// let limiter = Limiter::builder().rule(Rule::concurrency("slots", 2, Duration::from_secs(60))).build()?.blocking();
/// thread::scope(|scope| {
///     for job in 0..6 {
///         let limiter = &limiter;
///         scope.spawn(move || {
///             let _lease = limiter.hold("converter").unwrap(); // two of the six at a time
///             // … convert job …
///         });
///     }
/// });
/// assert_eq!(limiter.peek("converter")?.remaining(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A method blocks its thread until the store has answered, and `acquire` and `hold` for the wait. In a task that would
/// block a worker thread of its executor, and every other task on it: use the [`Limiter`] there (see
/// [`limiter`](Self::limiter)), or `tokio::task::spawn_blocking`. It is not detected, because such a thread looks the same as
/// one that may block; the call itself works, since nothing that it waits for runs on the caller's executor.
pub struct BlockingLimiter<S: Store = DefaultStore> {
    limiter: Limiter<S>,
    context: Context,
}

/// The runtime that the store's futures need, if any.
#[derive(Clone, Default)]
pub(crate) struct Context {
    handle: Option<Handle>,
    /// Ends the background thread with the last clone.
    #[cfg(feature = "redis")]
    _background: Option<std::sync::Arc<background::BackgroundRuntime>>,
}

impl Context {
    /// Polls the future on this thread until it is ready.
    pub(crate) fn wait_for<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.handle.as_ref().map(Handle::enter);
        parker::block_on(future)
    }

    /// Runs something that may start a task, such as the release of a lease.
    pub(crate) fn run<T>(&self, action: impl FnOnce() -> T) -> T {
        let _entered = self.handle.as_ref().map(Handle::enter);
        action()
    }
}

impl<S: Immediate> Limiter<S> {
    /// This limiter for threads. The store answers at once, so no runtime is needed.
    pub fn blocking(&self) -> BlockingLimiter<S> {
        BlockingLimiter { limiter: self.clone(), context: Context::default() }
    }
}

impl<S: Store> Limiter<S> {
    /// This limiter for threads, on a runtime of the caller, which other threads must drive: the one on which its store was
    /// connected. `LimiterBuilder::open_blocking` needs no runtime of the caller.
    pub fn blocking_on(&self, runtime: Handle) -> BlockingLimiter<S> {
        BlockingLimiter { limiter: self.clone(), context: Context { handle: Some(runtime), ..Context::default() } }
    }
}

/// Asking
impl<S: Store> BlockingLimiter<S> {
    /// [`Limiter::check`]: takes the permits if all rules admit the request now. A denial is a [`Decision`].
    pub fn check<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.check(request))
    }

    /// [`Limiter::peek`]: the state of the key.
    pub fn peek<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.peek(request))
    }

    /// [`Limiter::acquire`]: takes the permits, and parks the thread until they are free.
    pub fn acquire<'a>(&self, request: impl Into<Request<'a>>) -> Result<Acquired, AcquireError> {
        self.context.wait_for(self.limiter.acquire_waiting(request.into(), None, &ThreadWaiting))
    }

    /// [`Limiter::acquire_within`]: takes the permits within this time, or is denied at once. Zero tries.
    pub fn acquire_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        timeout: Duration,
    ) -> Result<Acquired, AcquireError> {
        self.context.wait_for(self.limiter.acquire_waiting(request.into(), Some(timeout), &ThreadWaiting))
    }

    /// [`Limiter::hold`]: waits for a lease under a concurrency rule. Dropping the guard releases it.
    pub fn hold<'a>(&self, request: impl Into<Request<'a>>) -> Result<BlockingLease<S>, AcquireError> {
        self.hold_by(request.into(), None)
    }

    /// [`Limiter::hold_within`]: denied if there is no lease within this time.
    pub fn hold_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        timeout: Duration,
    ) -> Result<BlockingLease<S>, AcquireError> {
        self.hold_by(request.into(), Some(timeout))
    }

    /// [`Limiter::reserve`]: charges an estimate now, to be settled.
    pub fn reserve<'a>(&self, request: impl Into<Request<'a>>) -> Result<BlockingReservation<S>, AcquireError> {
        self.reserve_within(request, Duration::ZERO)
    }

    /// [`Limiter::reserve_within`]: charges an estimate for a time up to `max_wait` ahead. Does not sleep.
    pub fn reserve_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        max_wait: Duration,
    ) -> Result<BlockingReservation<S>, AcquireError> {
        let reservation = self.context.wait_for(self.limiter.reserve_within(request, max_wait))?;
        Ok(BlockingReservation::new(reservation, self.context.clone()))
    }

    fn hold_by(&self, request: Request<'_>, timeout: Option<Duration>) -> Result<BlockingLease<S>, AcquireError> {
        let guard = self.context.wait_for(self.limiter.hold_waiting(request, timeout, &ThreadWaiting))?;
        Ok(BlockingLease::new(guard, self.context.clone()))
    }
}

/// Changing a key
impl<S: Store> BlockingLimiter<S> {
    /// [`Limiter::refund`]: returns permits that were taken and not used.
    pub fn refund<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.refund(request))
    }

    /// [`Limiter::penalize`]: charges the request's cost unconditionally.
    pub fn penalize<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.penalize(request))
    }

    /// [`Limiter::settle`]: corrects an estimate that was charged earlier.
    pub fn settle<'a>(&self, request: impl Into<Request<'a>>, actual: u64) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.settle(request, actual))
    }

    /// [`Limiter::block`]: denies every request of the key for a time.
    pub fn block<'a>(&self, request: impl Into<Request<'a>>, span: Duration) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.block(request, span))
    }

    /// [`Limiter::reset`]: deletes the state of the key.
    pub fn reset<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.reset(request))
    }

    /// [`Limiter::release`]: ends a lease that [`check`](Self::check) has taken.
    pub fn release<'a>(&self, request: impl Into<Request<'a>>, lease: LeaseId) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.release(request, lease))
    }

    /// [`Limiter::heartbeat`]: renews a lease.
    pub fn heartbeat<'a>(&self, request: impl Into<Request<'a>>, lease: LeaseId) -> Result<Decision, RequestError> {
        self.context.wait_for(self.limiter.heartbeat(request, lease))
    }

    /// [`Limiter::close`]: returns permits that this process holds in advance. For the end of a process.
    pub fn close(&self) {
        self.context.wait_for(self.limiter.close());
    }
}

/// Policies
impl<S: Store> BlockingLimiter<S> {
    /// [`Limiter::with_policy`]: the same limiter, with this policy as the one of requests that name none.
    pub fn with_policy(&self, name: &str) -> Result<Self, UnknownPolicy> {
        Ok(Self { limiter: self.limiter.with_policy(name)?, context: self.context.clone() })
    }

    /// The limiter for tasks, with its policies, rules and store.
    pub fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }
}

impl<S: Store> Clone for BlockingLimiter<S> {
    fn clone(&self) -> Self {
        Self { limiter: self.limiter.clone(), context: self.context.clone() }
    }
}

impl<S: Store> fmt::Debug for BlockingLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingLimiter").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
