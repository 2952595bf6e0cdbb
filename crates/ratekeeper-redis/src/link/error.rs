//! Why a call brought no reply. What matters is whether it can have had an effect.

use std::time::Duration;

use ratekeeper_core::{Span, StoreError};

use crate::address::HostPort;

/// A call without a reply.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was not executed. Another attempt is safe.
    #[error("{address}: {why}")]
    NotExecuted {
        /// The node.
        address: HostPort,
        /// The reason.
        why: NotExecuted,
    },
    /// It may have been executed, and must not be sent again.
    #[error("{address} was silent for {waited:?}; the call may have been carried out or not")]
    Unknown {
        /// The node.
        address: HostPort,
        /// Time since it was sent.
        waited: Duration,
    },
    /// It had no effect and another attempt would not change that: the configuration, or the value under the key, is wrong.
    #[error("{address} refused: {code} {message}")]
    Refused {
        /// The node.
        address: HostPort,
        /// The first word of the error reply.
        code: String,
        /// The rest of it.
        message: String,
    },
}

impl CallError {
    /// The node it was about.
    pub fn address(&self) -> &HostPort {
        match self {
            Self::NotExecuted { address, .. } | Self::Unknown { address, .. } | Self::Refused { address, .. } => {
                address
            }
        }
    }
}

/// Why a call was not executed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotExecuted {
    /// No connection.
    #[error("no connection: {cause}")]
    Unreachable {
        /// Why.
        cause: String,
    },
    /// The node's circuit breaker is open.
    #[error("no answer to too many calls; left alone until it is well again")]
    BreakerOpen,
    /// `max_in_flight` is reached.
    #[error("too many calls are in flight")]
    TooBusy,
    /// The deadline passed before the call was sent.
    #[error("the time was up before anything could be sent")]
    OutOfTime,
    /// `LOADING`
    #[error("the server is loading its data")]
    Loading,
    /// `BUSY`
    #[error("the server is busy with another script")]
    Busy,
    /// `MASTERDOWN`
    #[error("the server has lost its primary")]
    PrimaryDown,
    /// `CLUSTERDOWN`
    #[error("the cluster is down")]
    ClusterDown,
    /// `READONLY`
    #[error("the server is a replica, which takes no writes")]
    ReadOnly,
    /// `OOM`
    #[error("the server is out of memory")]
    OutOfMemory,
    /// `MISCONF`
    #[error("the server cannot save its data and takes no writes")]
    CannotSave,
    /// `NOREPLICAS`
    #[error("the server has too few replicas to take writes")]
    TooFewReplicas,
    /// `TRYAGAIN`
    #[error("the keys are on their way to another node")]
    TryAgain,
    /// `ERR max number of clients reached`
    #[error("the server has too many clients")]
    TooManyClients,
    /// The slot map has no owner for the slot.
    #[error("no node owns slot {slot}")]
    NoOwner {
        /// The slot.
        slot: u16,
    },
    /// More redirects than are followed.
    #[error("sent from node to node more than {hops} times")]
    TooManyHops {
        /// How many are followed.
        hops: u32,
    },
}

impl NotExecuted {
    /// Whether the node itself is unavailable, so that every call would get the same reply.
    pub(super) fn is_unhealthy(&self) -> bool {
        matches!(self, Self::Loading | Self::Busy | Self::PrimaryDown)
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        let address = error.address().to_string();
        match error {
            CallError::NotExecuted { .. } => Self::Unreachable { address, cause: Box::new(error) },
            CallError::Unknown { waited, .. } => Self::TimedOut { address, waited: Span::from_duration(waited) },
            CallError::Refused { code, message, .. } => Self::Refused { address, reason: format!("{code} {message}") },
        }
    }
}
