//! Errors of a gateway's bucket.

use ratekeeper_core::StoreError;

/// Why a request was neither allowed nor refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The number of tokens exceeds the capacity or is not valid. Nothing was sent.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// An empty id, or one that begins with `}`, leaves the two keys without a common slot.
    #[error(
        "the keys of the id `{id}` lie in different slots of the cluster; an id must begin with something but `}}`"
    )]
    ApartInCluster {
        /// The id, as derived by the rule.
        id: String,
    },
    /// The server did not answer. The gateways allow such a request; here the caller decides.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits that are not valid. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// Zero would refuse or allow every request; the gateways do not define which.
    #[error("{field} is {found}; it must be above 0, and at most {max}")]
    OutOfRange {
        /// Which one: `rate`, `capacity` or `requested`.
        field: &'static str,
        /// The value found.
        found: f64,
        /// The most.
        max: f64,
    },
    /// No wait would suffice.
    #[error("{requested} tokens are requested at once, and the capacity is {capacity}; ask for less")]
    AboveCapacity {
        /// The tokens requested.
        requested: f64,
        /// The capacity of the bucket.
        capacity: f64,
    },
}
