//! What a limiter must be able to do to stand in front of a service.
//!
//! `tollgate::Limiter` is one, over any store, with that crate's feature `tower`. The trait exists so that arrows keep
//! pointing inward: the front door offers these layers, so they cannot depend on the front door.

use std::{future::Future, sync::Arc, time::Duration};

use tollgate_core::{Decision, LeaseId, Micros, Policy, StoreError, Verb};

/// Decides who may pass, now or in turn. Clones share everything.
pub trait Gate: Clone + Send + Sync + 'static {
    /// May a request of this cost pass now? A cost of 0 looks only.
    fn check(&self, key: &str, cost: u64) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Takes so many permits, sleeping until its turn, or says at once that it would not come in time.
    fn acquire(
        &self,
        key: &str,
        cost: u64,
        within: Option<Duration>,
    ) -> impl Future<Output = Result<Decision, TurnError>> + Send;

    /// Renews a lease; false if it had ended already.
    fn heartbeat(&self, key: &str, lease: LeaseId) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Carries out a verb without waiting for the outcome.
    fn tell(&self, key: &str, verb: Verb);

    /// The rules as they are now.
    fn policy(&self) -> Arc<Policy>;
}

/// A turn did not come. Nothing was charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// It would have come later than the caller would wait.
    #[error("the turn would have come in {retry_after}, later than the caller would wait")]
    TooLong {
        /// How long it would have been.
        retry_after: Micros,
    },
    /// More was asked for than can ever be there.
    #[error("{cost} permits were asked for and {limit} is the most that can pass at once; ask for less at a time")]
    Never {
        /// What was asked for.
        cost: u64,
        /// What can be had.
        limit: u64,
    },
    /// Nothing could be decided.
    #[error(transparent)]
    Store(#[from] StoreError),
}
