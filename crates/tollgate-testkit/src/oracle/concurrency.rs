//! Concurrency: a list of holders, each from a moment to a moment.
//!
//! A holder that nobody hears of has let go after `lease`. A request passes at a moment if all who wait have begun by
//! then and those who still hold leave room.

use tollgate_core::LeaseId;

use super::{Booking, Naive};

pub(super) struct Concurrency {
    limit: u64,
    lease: u64,
    holders: Vec<Holder>,
}

struct Holder {
    id: LeaseId,
    permits: u64,
    from: u64,
    until: u64,
}

impl Concurrency {
    pub(super) fn new(limit: u64, lease: u64) -> Self {
        Self { limit, lease, holders: Vec::new() }
    }

    fn line(&self) -> u64 {
        self.holders.iter().map(|holder| holder.from).max().unwrap_or(0)
    }

    fn held(&self, moment: u64) -> u64 {
        let holding = |holder: &&Holder| holder.from <= moment && moment < holder.until;
        self.holders.iter().filter(holding).map(|holder| holder.permits).sum()
    }

    /// The lease of that name that would end first.
    fn find(&self, id: LeaseId, now: u64) -> Option<usize> {
        let named = self.holders.iter().enumerate().filter(|(_, holder)| holder.id == id && holder.until > now);
        named.min_by_key(|(_, holder)| holder.until).map(|(index, _)| index)
    }
}

impl Naive for Concurrency {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn free_at(&self, cost: u64, now: u64) -> u64 {
        let line = self.line();
        let endings = self.holders.iter().map(|holder| holder.until);
        let moments = endings.chain([now, line]).filter(|&moment| moment >= now && moment >= line);
        moments.filter(|&moment| self.held(moment) + cost <= self.limit).min().unwrap()
    }

    fn book(&mut self, booking: Booking) {
        let (id, permits, from) = (booking.lease, booking.cost, booking.go);
        self.holders.push(Holder { id, permits, from, until: from + self.lease });
    }

    fn remaining(&self, now: u64) -> u64 {
        if self.line() > now { 0 } else { self.limit - self.held(now) }
    }

    fn rests_at(&self, now: u64) -> u64 {
        self.holders.iter().map(|holder| holder.until).fold(now, u64::max)
    }

    fn release(&mut self, lease: LeaseId, now: u64) {
        if let Some(index) = self.find(lease, now) {
            self.holders.remove(index);
        }
    }

    fn heartbeat(&mut self, lease: LeaseId, now: u64) {
        if let Some(index) = self.find(lease, now) {
            let holder = &mut self.holders[index];
            holder.until = holder.until.max(now + self.lease);
        }
    }
}
