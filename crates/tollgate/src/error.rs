//! What keeps a limiter from being built, and a waiter from getting in.

use tollgate_core::{Micros, PolicyError, StoreError};

/// A limiter could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A rule is wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The store would not take the policy.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A waiter did not get in. Nothing was charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The wait would have been longer than the caller allowed; told at once, not at the end of it.
    #[error("the limit would have let this pass in {retry_after}, later than the caller would wait")]
    TooLong {
        /// How long it would have been.
        retry_after: Micros,
    },
    /// The turn came in time, but the sleep ended too late.
    #[error("woke up {late_by} after the time allowed; the permits were given back")]
    Late {
        /// By how much.
        late_by: Micros,
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
