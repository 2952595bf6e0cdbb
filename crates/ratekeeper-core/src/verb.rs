//! Verbs: everything that can be asked of a key.
//!
//! The number of permits a verb is about is not part of it. It is the cost of the request, per key; see
//! [`Ask::cost`](crate::Ask::cost).

use std::fmt;

use crate::{
    algorithm::LeaseId,
    request_id::RequestId,
    time::{Span, Timestamp},
};

/// One question or instruction about a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verb {
    /// Charges the cost if every rule admits it. A cost of 0 looks only.
    Take(Take),
    /// Reports the state of the key. Charges nothing and ignores the cost.
    Peek,
    /// Returns the cost: permits that were taken and not used. Never fills a key above its limit.
    Refund {
        /// When the permits were to go: the time of the take plus its wait. With it, a reservation can be cancelled.
        at: Option<Timestamp>,
    },
    /// Cancels an allowed take of this cost, because its caller has gone away.
    Undo {
        /// When the take was to go: the time of its decision plus its wait.
        at: Timestamp,
        /// The lease that it got, if any.
        lease: Option<LeaseId>,
    },
    /// Corrects an estimate. The cost is what was charged; the difference is returned or charged.
    Settle {
        /// The real cost.
        actual: u64,
        /// When the permits went, as for a refund.
        at: Option<Timestamp>,
    },
    /// Charges the cost unconditionally; may leave the key in debt.
    Penalize,
    /// Denies every request for a time, 100 days at most. Zero lifts the block. Ignores the cost.
    Block {
        /// How long.
        span: Span,
    },
    /// Ends leases under concurrency rules.
    Release(Release),
    /// Renews a lease under concurrency rules. Ignores the cost.
    Heartbeat(LeaseId),
    /// Finishes a request that was charged under an id: corrects its charge to the actual cost. A second one changes nothing.
    /// Ignores the cost.
    Commit {
        /// The id under which it was charged.
        id: RequestId,
        /// The real cost.
        actual: u64,
    },
    /// Finishes a request that was charged under an id: refunds its charge and ends its lease. A second one changes nothing.
    /// Ignores the cost.
    Cancel {
        /// The id under which it was charged.
        id: RequestId,
    },
    /// Refunds a reservation whose lifetime has ended, if it is to be refunded then and was not finished. Stores do this by
    /// themselves. Ignores the cost.
    Expire {
        /// The id under which it was charged.
        id: RequestId,
    },
    /// Deletes the state of the key. Ignores the cost.
    Reset,
}

impl Verb {
    /// The id of a request that this finishes.
    pub const fn finishes(&self) -> Option<RequestId> {
        match self {
            Self::Commit { id, .. } | Self::Cancel { id } | Self::Expire { id } => Some(*id),
            _ => None,
        }
    }

    /// The word for it on wires, in metrics and in errors.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Take(_) => "take",
            Self::Peek => "peek",
            Self::Refund { .. } => "refund",
            Self::Undo { .. } => "undo",
            Self::Settle { .. } => "settle",
            Self::Penalize => "penalize",
            Self::Block { .. } => "block",
            Self::Release(_) => "release",
            Self::Heartbeat(_) => "heartbeat",
            Self::Commit { .. } => "commit",
            Self::Cancel { .. } => "cancel",
            Self::Expire { .. } => "expire",
            Self::Reset => "reset",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a take may be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Take {
    /// The longest acceptable wait. Zero tries.
    pub max_wait: Span,
    /// Whether `max_wait` also bounds the delay that a shaped rule gives to an admitted request. A try accepts that
    /// delay; a caller with a deadline cannot.
    pub whole_wait: bool,
    /// The id under which concurrency rules store the lease.
    pub lease: LeaseId,
}

impl Take {
    /// Take now, or be denied.
    pub const fn now() -> Self {
        Self { max_wait: Span::ZERO, whole_wait: false, lease: LeaseId(0) }
    }

    /// Take within this time, or be denied at once.
    pub const fn within(max_wait: Span) -> Self {
        Self { max_wait, whole_wait: true, lease: LeaseId(0) }
    }

    /// The take of a wire with one field for the wait: zero tries, more is a bound on the whole wait.
    pub const fn up_to(max_wait: Span) -> Self {
        if max_wait.as_micros() == 0 { Self::now() } else { Self::within(max_wait) }
    }

    /// The same take, without a wait.
    #[must_use]
    pub const fn without_wait(mut self) -> Self {
        self.max_wait = Span::ZERO;
        self
    }

    /// The same take, with the id under which concurrency rules store the lease.
    #[must_use]
    pub const fn with_lease(mut self, lease: LeaseId) -> Self {
        self.lease = lease;
        self
    }
}

/// Which leases end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// The lease with this id. Ignores the cost.
    Lease(LeaseId),
    /// The leases that expire first, for as many permits as the cost says.
    Oldest,
}
