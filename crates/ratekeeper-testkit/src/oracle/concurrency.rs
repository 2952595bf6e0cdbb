//! Oracle for concurrency: a list of leases, each with its start and its end.
//!
//! A lease without a heartbeat ends after its length. A request passes at an instant if all reservations have started by
//! then and the leases held at that instant leave room.

use ratekeeper_core::LeaseId;

use super::{Booking, Naive};

pub(super) struct Concurrency {
    limit: u64,
    lease: u64,
    leases: Vec<HeldLease>,
}

struct HeldLease {
    id: LeaseId,
    permits: u64,
    from: u64,
    until: u64,
}

impl Concurrency {
    pub(super) fn new(limit: u64, lease: u64) -> Self {
        Self { limit, lease, leases: Vec::new() }
    }

    /// The latest start: no request passes before a reservation.
    fn last_start(&self) -> u64 {
        self.leases.iter().map(|held_lease| held_lease.from).max().unwrap_or(0)
    }

    fn held(&self, instant: u64) -> u64 {
        let holding = |held_lease: &&HeldLease| held_lease.from <= instant && instant < held_lease.until;
        self.leases.iter().filter(holding).map(|held_lease| held_lease.permits).sum()
    }

    /// The lease with this id that ends first.
    fn find(&self, id: LeaseId, now: u64) -> Option<usize> {
        let found =
            self.leases.iter().enumerate().filter(|(_, held_lease)| held_lease.id == id && held_lease.until > now);
        found.min_by_key(|(_, held_lease)| held_lease.until).map(|(index, _)| index)
    }
}

impl Naive for Concurrency {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let last_start = self.last_start();
        let ends = self.leases.iter().map(|held_lease| held_lease.until);
        let instants = ends.chain([now, last_start]).filter(|&instant| instant >= now && instant >= last_start);
        instants.filter(|&instant| self.held(instant) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        let (id, permits, from) = (booking.lease, booking.cost, booking.go);
        self.leases.push(HeldLease { id, permits, from, until: from + self.lease });
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.last_start() > now { 0 } else { self.limit - self.held(now) }
    }

    fn reset_at(&self, now: u64) -> u64 {
        self.leases.iter().map(|held_lease| held_lease.until).fold(now, u64::max)
    }

    fn release(&mut self, lease: LeaseId, now: u64) {
        if let Some(index) = self.find(lease, now) {
            self.leases.remove(index);
        }
    }

    fn heartbeat(&mut self, lease: LeaseId, now: u64) {
        if let Some(index) = self.find(lease, now) {
            let held_lease = &mut self.leases[index];
            held_lease.until = held_lease.until.max(now + self.lease);
        }
    }
}
