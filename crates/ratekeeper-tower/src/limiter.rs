//! The trait that the layers ask: `RateLimiter`.
//!
//! `ratekeeper::Limiter` implements it, on any store, with that crate's feature `tower`. The trait keeps dependencies
//! pointing inward: `ratekeeper` offers these layers, so they cannot depend on it.

use std::{future::Future, sync::Arc, time::Duration};

use ratekeeper_core::{Decision, LeaseId, Policy, Span, StoreError, Verb};

/// Decides about requests, at once or after a wait. Clones share their state.
pub trait RateLimiter: Clone + Send + Sync + 'static {
    /// Takes this many permits now, or none. A cost of 0 takes nothing.
    fn check(&self, key: &str, cost: u64) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Takes this many permits and sleeps until they are available. Fails at once if that is later than `max_wait`; `None`
    /// waits as long as necessary.
    fn acquire(
        &self,
        key: &str,
        cost: u64,
        max_wait: Option<Duration>,
    ) -> impl Future<Output = Result<Decision, WaitError>> + Send;

    /// Extends a lease; false if it had expired.
    fn heartbeat(&self, key: &str, lease: LeaseId) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Executes a verb in the background, without a result.
    fn submit(&self, key: &str, cost: u64, verb: Verb);

    /// The current rules.
    fn policy(&self) -> Arc<Policy>;
}

/// A [`RateLimiter`] acquired no permits. Nothing was charged.
///
/// These are the cases that every limiter has. `ratekeeper::AcquireError` is the error of one limiter's methods, with cases that
/// a layer cannot meet or does not distinguish: a request that names an unknown policy, and a task that woke up after its
/// deadline, which is [`TimeoutExceeded`](Self::TimeoutExceeded) here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The permits are available later than the caller would wait.
    #[error("the permits are available in {retry_after}, later than the caller would wait")]
    TimeoutExceeded {
        /// Time until they are available.
        retry_after: Span,
    },
    /// The cost exceeds the limit.
    #[error("{cost} permits were asked for and {limit} is the most that can pass at once; ask for less at a time")]
    ExceedsLimit {
        /// Permits asked for.
        cost: u64,
        /// Permits that can pass at once.
        limit: u64,
    },
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}
