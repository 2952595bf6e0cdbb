//! Errors of building a limiter, of requests, and of waiting for permits.
//!
//! A denial is not an error of a check. It is one of the calls that return a guard: see [`AcquireError::Denied`].

use std::time::Duration;

use ratekeeper_core::{PolicyError, StoreError};

/// A limiter could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A rule, or the name of a policy or domain, is not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Two policies have the same name.
    #[error("two policies are named \"{name}\"; give each its own name")]
    DuplicatePolicy {
        /// The name.
        name: String,
    },
    /// The store cannot keep the policy.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request could not be decided. Nothing was charged, unless the store error says that this is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request names a policy that the limiter does not have.
    #[error(transparent)]
    UnknownPolicy(#[from] UnknownPolicy),
    /// A key without a descriptor could mean several rules of a file.
    #[cfg(feature = "rules")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
    #[error(transparent)]
    AmbiguousKey(#[from] ratekeeper_rules::matching::AmbiguousKey),
    /// A request has no key, or more than are decided in one step.
    #[error("{found} keys in one request; give 1 to {max}")]
    #[non_exhaustive]
    KeyCount {
        /// The number of keys in the request.
        found: usize,
        /// The most.
        max: usize,
    },
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RequestError {
    /// Whether the same request may succeed if it is sent again soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::UnknownPolicy(_) | Self::KeyCount { .. } => false,
            #[cfg(feature = "rules")]
            Self::AmbiguousKey(_) => false,
            Self::Store(error) => error.is_transient(),
        }
    }
}

/// A name that no policy of the limiter has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no policy is named \"{name}\"; the limiter has {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownPolicy {
    /// The name in the request.
    pub name: String,
    /// The policies of the limiter.
    pub known: Vec<String>,
}

/// The permits were not acquired. Nothing was charged.
///
/// The layers of `ratekeeper-tower` report `WaitError` instead: that crate is below this one, and its requests name no policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The permits are not free within the time allowed. Reported at once; only a wait for a lease lasts the whole time.
    #[error("denied: the permits are free in {retry_after:?}, later than the caller waits")]
    Denied {
        /// The wait that would have been needed.
        retry_after: Duration,
    },
    /// The permits were reserved in time, but the task woke up after the deadline. They were refunded.
    #[error("woke up {late_by:?} after the deadline; the permits were refunded")]
    DeadlineMissed {
        /// The time since the deadline.
        late_by: Duration,
    },
    /// The cost exceeds the limit; waiting cannot help.
    #[error("{cost} permits were asked for and {limit} is the most that can pass at once; ask for less at a time")]
    ExceedsLimit {
        /// The permits requested.
        cost: u64,
        /// The most permits that can pass at once.
        limit: u64,
    },
    /// The request names a policy that the limiter does not have.
    #[error(transparent)]
    UnknownPolicy(#[from] UnknownPolicy),
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}
