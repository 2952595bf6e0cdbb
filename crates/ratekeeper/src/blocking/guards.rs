//! Leases and reservations of a [`BlockingLimiter`](super::BlockingLimiter).

use std::{fmt, time::Duration};

use ratekeeper_core::{Decision, Store, StoreError};

use super::Context;
use crate::{hold::LeaseGuard, reservation::Reservation};

/// Permits held under a concurrency rule. Dropping the guard releases them.
#[must_use = "dropped at once, the lease is released at once"]
pub struct BlockingLease<S: Store> {
    /// Taken when the lease ends.
    guard: Option<LeaseGuard<S>>,
    context: Context,
}

impl<S: Store> BlockingLease<S> {
    pub(super) fn new(guard: LeaseGuard<S>, context: Context) -> Self {
        Self { guard: Some(guard), context }
    }

    /// Renews the lease for its whole duration. False if it had expired already; its permits may have been taken by
    /// another request since.
    pub fn heartbeat(&self) -> Result<bool, StoreError> {
        self.guard.as_ref().map_or(Ok(false), |guard| self.context.wait_for(guard.heartbeat()))
    }

    /// Releases the lease and waits until the store has confirmed it. Dropping the guard does not wait.
    pub fn release(mut self) -> Result<(), StoreError> {
        self.guard.take().map_or(Ok(()), |guard| self.context.wait_for(guard.release()))
    }
}

impl<S: Store> Drop for BlockingLease<S> {
    fn drop(&mut self) {
        let guard = self.guard.take();
        self.context.run(|| drop(guard));
    }
}

impl<S: Store> fmt::Debug for BlockingLease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockingLease").field(&self.guard).finish()
    }
}

/// Permits that have been charged, to be settled or cancelled. Dropped without either, they stay charged as estimated.
#[must_use = "settle it with the real cost, or the estimate stays charged"]
pub struct BlockingReservation<S: Store> {
    reservation: Reservation<S>,
    context: Context,
}

impl<S: Store> BlockingReservation<S> {
    pub(super) fn new(reservation: Reservation<S>, context: Context) -> Self {
        Self { reservation, context }
    }

    /// The permits that were charged.
    pub fn cost(&self) -> u64 {
        self.reservation.cost()
    }

    /// The time, from the decision on, after which the caller may proceed. Zero unless it was reserved for later.
    pub fn wait(&self) -> Duration {
        self.reservation.wait()
    }

    /// The decision that charged them.
    pub fn decision(&self) -> &Decision {
        self.reservation.decision()
    }

    /// [`Reservation::settle`]: replaces the estimate by the real cost.
    pub fn settle(self, actual: u64) -> Result<Decision, StoreError> {
        self.context.wait_for(self.reservation.settle(actual))
    }

    /// [`Reservation::cancel`]: returns all permits, unless a later reservation depends on them.
    pub fn cancel(self) -> Result<Decision, StoreError> {
        self.context.wait_for(self.reservation.cancel())
    }
}

impl<S: Store> fmt::Debug for BlockingReservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockingReservation").field(&self.reservation).finish()
    }
}
