//! Concurrency: at most `limit` permits held at one time.
//!
//! Each holder has a lease. It ends by release, or expires when no heartbeat has come for the length of the lease, so a
//! crashed holder cannot block a key for ever. Leases are stored in the order in which they expire.
//!
//! The `retry_after` of a denial is an upper bound: when enough leases will have expired. A release may make it sooner.
//! A reservation is a lease that begins in the future; no later request is admitted before it.
//!
//! Bound: at most `limit` permits are held at any time by holders whose lease has not expired.
//!
//! Twin: `leases.lua` in the Redis store.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    held::Held,
    time::{Span, Timestamp},
};

/// A concurrency rule's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Leases {
    limit: u64,
    lease: Span,
    tolerance: Span,
}

/// The leases of one key, first to expire first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LeaseState {
    /// The clock at the last change, to detect steps back.
    last: Timestamp,
    leases: Vec<Lease>,
}

/// The lease of one holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// Permits held.
    pub permits: u64,
    /// When it expires.
    pub until: Timestamp,
}

impl Leases {
    pub(crate) fn new(limit: u64, lease: Span) -> Self {
        Self { limit, lease, tolerance: tolerance(lease) }
    }

    /// Length of a lease.
    pub fn lease(&self) -> Span {
        self.lease
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Ends a lease; true if it was still held.
    pub fn release(&self, state: &mut LeaseState, id: LeaseId, now: Timestamp) -> bool {
        self.bring_up_to_date(state, now);
        match state.leases.iter().position(|lease| lease.id == id) {
            Some(found) => {
                state.leases.remove(found);
                true
            }
            None => false,
        }
    }

    /// Releases permits of the leases that would expire first.
    pub fn release_oldest(&self, state: &mut LeaseState, permits: u64, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let mut missing = permits;
        for lease in &mut state.leases {
            let taken = lease.permits.min(missing);
            lease.permits -= taken;
            missing -= taken;
        }
        state.leases.retain(|lease| lease.permits > 0);
    }

    /// Extends a lease from now on; true if it was still held. An expired lease cannot be extended. A lease is not extended
    /// while a reservation depends on its expiry.
    pub fn heartbeat(&self, state: &mut LeaseState, id: LeaseId, now: Timestamp) -> bool {
        self.bring_up_to_date(state, now);
        let Some(found) = state.leases.iter().position(|lease| lease.id == id) else {
            return false;
        };
        if self.line(state) > state.last {
            return true;
        }
        let lease = state.leases.remove(found);
        let until = (state.last + self.lease).max(lease.until);
        state.insert(Lease { until, ..lease });
        true
    }

    /// Permits held at `now`, reservations included.
    pub fn used(&self, state: &LeaseState, now: Timestamp) -> u64 {
        let moment = state.moment(now);
        state.leases.iter().filter(|lease| lease.until > moment).map(|lease| lease.permits).sum()
    }

    /// Migrates a state from another quota: holders keep their permits, for no longer than the new lease from now.
    pub(crate) fn adopt(&self, old: &Self, state: &LeaseState, now: Timestamp) -> LeaseState {
        let mut adopted = state.clone();
        old.bring_up_to_date(&mut adopted, now);
        for lease in &mut adopted.leases {
            let begins = (lease.until - old.lease).max(adopted.last);
            lease.until = lease.until.min(begins + self.lease);
        }
        adopted
    }

    /// Stores the time and removes expired leases.
    fn bring_up_to_date(&self, state: &mut LeaseState, now: Timestamp) {
        let moment = state.moment(now);
        state.leases.retain(|lease| lease.until > moment);
        state.last = moment;
    }

    /// When the last lease begins; in the future if it is a reservation.
    fn line(&self, state: &LeaseState) -> Timestamp {
        state.leases.last().map_or(Timestamp::EPOCH, |lease| lease.until - self.lease)
    }
}

impl LeaseState {
    /// The time to read the leases at: now, or later while a clock that stepped back catches up.
    fn moment(&self, now: Timestamp) -> Timestamp {
        if self.leases.is_empty() { now } else { now.max(self.last) }
    }

    /// The clock at the last change.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// Leases from their stored form, first to expire first.
    pub fn restore(last: Timestamp, leases: Vec<Lease>) -> Self {
        Self { last, leases }
    }

    /// The leases, first to expire first.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// Heap bytes.
    pub fn heap_bytes(&self) -> usize {
        self.leases.capacity() * size_of::<Lease>()
    }

    fn insert(&mut self, lease: Lease) {
        let place = self.leases.partition_point(|other| other.until <= lease.until);
        self.leases.insert(place, lease);
    }
}

impl Algorithm for Leases {
    type State = LeaseState;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn follow(&self, state: &mut LeaseState, now: Timestamp) -> Span {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Span::ZERO {
            for lease in &mut state.leases {
                lease.until = lease.until - back;
            }
            state.last = state.last - back;
        }
        back
    }

    fn weigh(&self, state: &LeaseState, cost: u64, now: Timestamp) -> Weighed {
        let (moment, line) = (state.moment(now), self.line(state));
        let mut held = self.used(state, now);
        if cost == 0 || (held + cost <= self.limit && line <= moment) {
            return Weighed::at(now);
        }
        let mut free_at = line.max(moment);
        for lease in state.leases.iter().filter(|lease| lease.until > moment) {
            if held + cost <= self.limit {
                break;
            }
            held -= lease.permits;
            free_at = free_at.max(lease.until);
        }
        Weighed::at(free_at)
    }

    fn charge(&self, state: &mut LeaseState, charge: Charge, now: Timestamp) {
        self.bring_up_to_date(state, now);
        let until = charge.at.max(state.last) + self.lease;
        state.insert(Lease { id: charge.lease, permits: charge.cost, until });
    }

    /// A penalty is a lease without a holder: it expires. More than the limit has the same effect as the limit.
    fn penalize(&self, state: &mut LeaseState, charge: Charge, now: Timestamp) {
        let cost = charge.cost.min(self.limit);
        self.charge(state, Charge { cost, at: now, ..charge }, now);
    }

    /// With an id, that lease is released. Without one, permits come from the newest leases that have begun, or from those
    /// that began at the time given.
    fn give_back(&self, state: &mut LeaseState, back: GiveBack, now: Timestamp) {
        if let Some(id) = back.lease {
            self.release(state, id, now);
            return;
        }
        self.bring_up_to_date(state, now);
        let mut missing = back.cost;
        for lease in state.leases.iter_mut().rev() {
            let begins = lease.until - self.lease;
            if begins > back.at.unwrap_or(state.last) || back.at.is_some_and(|at| begins != at) {
                continue;
            }
            let permits = lease.permits.min(missing);
            lease.permits -= permits;
            missing -= permits;
        }
        state.leases.retain(|lease| lease.permits > 0);
    }

    fn look(&self, state: &LeaseState, now: Timestamp) -> Look {
        let (moment, held) = (state.moment(now), self.used(state, now));
        let remaining = if self.line(state) > moment { 0 } else { self.limit.saturating_sub(held) };
        let reset_at = match state.leases.last() {
            Some(last) if held > 0 => last.until,
            _ => now,
        };
        Look { remaining, reset_at }
    }

    fn line_ends(&self, state: &LeaseState, _now: Timestamp) -> Timestamp {
        self.line(state)
    }

    /// Leases are not granted in advance.
    fn reset_with_held(&self, state: &LeaseState, _held: Held, now: Timestamp) -> Timestamp {
        self.look(state, now).reset_at
    }

    fn turn(&self) -> Span {
        Span::ZERO
    }

    fn horizon(&self) -> Span {
        MAX_WAIT
    }
}
