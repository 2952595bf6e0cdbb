//! Why a gateway's bucket could not do what it was asked to.

use tollgate_core::StoreError;

/// Something other than "allowed" or "refused".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// What was asked for can never be had, or is no number of tokens. Nothing was sent.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// An id without a name, or one that begins with `}`, leaves the two keys without a common slot.
    #[error(
        "the keys of the id `{id}` lie in different slots of the cluster; an id must begin with something but `}}`"
    )]
    ApartInCluster {
        /// The id, as made by the rule.
        id: String,
    },
    /// The server could not answer. The gateways let such a request pass; here it is the caller's choice.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits that cannot be kept, told before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// Zero would refuse everyone or nobody, and the gateways do not say which.
    #[error("{field} is {found}; it must be above 0, and at most {max}")]
    OutOfRange {
        /// Which one: `rate`, `capacity` or `requested`.
        field: &'static str,
        /// Asked for.
        found: f64,
        /// The most.
        max: f64,
    },
    /// No wait would do.
    #[error("{requested} tokens are requested at once, and the capacity is {capacity}; ask for less")]
    AboveCapacity {
        /// Asked for.
        requested: f64,
        /// The most there can be.
        capacity: f64,
    },
}
