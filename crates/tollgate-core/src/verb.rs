//! What can be asked of a key.

use crate::{algorithm::LeaseId, time::Micros};

/// One question or instruction about one key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verb {
    /// May these permits go? If so they are charged.
    Take(Take),
    /// How does the key stand? Charges nothing.
    Peek,
    /// Permits that were taken and not used. Never lifts a key above full.
    Refund {
        /// How many.
        cost: u64,
        /// When they were to go: the moment of the take plus its wait. Known, a reservation can be cancelled.
        at: Option<Micros>,
    },
    /// A take that was allowed is not to be: a waiter has gone away.
    Undo {
        /// What was taken.
        cost: u64,
        /// When it was to go: the moment of the decision plus its wait.
        at: Micros,
        /// The lease that came with it, if any did.
        lease: Option<LeaseId>,
    },
    /// The real cost of a take is known now: give the rest back, or charge what is missing.
    Settle {
        /// What was charged.
        reserved: u64,
        /// What it came to.
        actual: u64,
        /// When the permits went, as for a refund.
        at: Option<Micros>,
    },
    /// Charge without asking; may leave the key in debt.
    Penalize {
        /// How many.
        cost: u64,
    },
    /// Refuse everything for a while, 100 days at most; 0 lifts it.
    Block {
        /// How long.
        span: Micros,
    },
    /// A holder lets go.
    Release(Release),
    /// A holder is still there.
    Heartbeat(LeaseId),
    /// Forget the key.
    Reset,
}

/// A request for permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Take {
    /// How many permits. 0 looks only.
    pub cost: u64,
    /// How long the caller is willing to wait for them. 0 tries.
    pub max_wait: Micros,
    /// Whether `max_wait` also covers the delay a shaped rule tells an admitted request. A try takes that delay as
    /// told; a caller with a deadline cannot.
    pub whole_wait: bool,
    /// The name under which a concurrency rule keeps the holder.
    pub lease: LeaseId,
}

impl Take {
    /// Try to take so many permits now.
    pub const fn now(cost: u64) -> Self {
        Self { cost, max_wait: Micros::ZERO, whole_wait: false, lease: LeaseId(0) }
    }

    /// Take them within this time, or refuse at once.
    pub const fn within(cost: u64, max_wait: Micros) -> Self {
        Self { cost, max_wait, whole_wait: true, lease: LeaseId(0) }
    }

    /// What a wire asks that has one field for the wait: 0 tries, more is a deadline for the whole wait.
    pub const fn up_to(cost: u64, max_wait: Micros) -> Self {
        if max_wait.0 == 0 { Self::now(cost) } else { Self::within(cost, max_wait) }
    }

    /// The same request, for so many times the permits.
    #[must_use]
    #[inline(always)]
    pub const fn times(mut self, times: u64) -> Self {
        self.cost = self.cost.saturating_mul(times);
        self
    }

    /// The name under which a concurrency rule keeps the holder.
    #[must_use]
    pub const fn held_as(mut self, lease: LeaseId) -> Self {
        self.lease = lease;
        self
    }
}

/// Who lets go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// The holder of this lease.
    Lease(LeaseId),
    /// Whoever holds the leases that end first, for so many permits.
    Oldest(u64),
}
