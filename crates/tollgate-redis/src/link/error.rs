//! Why a call brought no answer, told so that nobody takes a silence for a "no".

use std::time::Duration;

use crate::address::HostPort;

/// A call without an answer. What to do next depends on one thing: whether it can have had an effect.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    /// It surely had none. Another may be tried.
    #[error("{address}: {why}")]
    NotRun { address: HostPort, why: NotRun },
    /// It may have had one, and must not be sent again.
    #[error("{address} was silent for {waited:?}; the call may have been carried out or not")]
    Unknown { address: HostPort, waited: Duration },
    /// It had none, and never will: somebody has to look at the configuration, or at what lies under our keys.
    #[error("{address} refused: {code} {message}")]
    Refused { address: HostPort, code: String, message: String },
}

impl CallError {
    /// Where it happened.
    pub(crate) fn address(&self) -> &HostPort {
        match self {
            Self::NotRun { address, .. } | Self::Unknown { address, .. } | Self::Refused { address, .. } => address,
        }
    }
}

/// Why a call was surely not carried out.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NotRun {
    #[error("no connection: {cause}")]
    Unreachable { cause: String },
    #[error("no answer to too many calls; left alone until it is well again")]
    BreakerOpen,
    #[error("too many calls are under way")]
    TooBusy,
    #[error("the time was up before anything could be sent")]
    OutOfTime,
    #[error("the server is loading its data")]
    Loading,
    #[error("the server is busy with somebody's script")]
    Busy,
    #[error("the server has lost its primary")]
    PrimaryDown,
    #[error("the cluster is down")]
    ClusterDown,
    #[error("the server is a replica, which takes no writes")]
    ReadOnly,
    #[error("the server is out of memory")]
    OutOfMemory,
    #[error("the server cannot save its data and takes no writes")]
    CannotSave,
    #[error("the server has too few replicas to take writes")]
    TooFewReplicas,
    #[error("the keys are on their way to another node")]
    TryAgain,
    #[error("the server has too many clients")]
    TooManyClients,
    #[error("no node owns slot {slot}")]
    NoOwner { slot: u16 },
    #[error("sent from node to node more than {hops} times")]
    TooManyHops { hops: u32 },
}

impl NotRun {
    /// The node itself is unwell, and everybody who asks will hear the same.
    pub(super) fn is_sick(&self) -> bool {
        matches!(self, Self::Loading | Self::Busy | Self::PrimaryDown)
    }
}
