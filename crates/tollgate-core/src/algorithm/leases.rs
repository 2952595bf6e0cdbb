//! Concurrency: at most `limit` permits held at one time.
//!
//! Each holder has a lease. It ends by release, or by itself when the holder has been silent for the lease's length,
//! so a crashed holder cannot block a key for ever; a living one says so with a heartbeat. Leases are kept in the
//! order they end.
//!
//! What a denial can promise is only the latest moment: when enough leases will have ended by themselves. A release
//! may make it sooner. A reservation is a lease that begins ahead; nobody goes before it.
//!
//! Bound: at most `limit` permits are held at any moment by holders whose lease has not ended.

use super::{Algorithm, Charge, GiveBack, LeaseId, Look, Weighed, stepped_back};
use crate::{
    bounds::{MAX_WAIT, tolerance},
    time::Micros,
};

/// A concurrency rule's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Leases {
    limit: u64,
    lease: Micros,
    tolerance: Micros,
}

/// The leases of one key, first to end first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LeaseState {
    /// The clock at the last change, to notice when it steps back.
    last: Micros,
    leases: Vec<Lease>,
}

/// One holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Who holds.
    pub id: LeaseId,
    /// How many permits.
    pub permits: u64,
    /// When it ends by itself.
    pub until: Micros,
}

impl Leases {
    pub(crate) fn new(limit: u64, lease: Micros) -> Self {
        Self { limit, lease, tolerance: tolerance(lease) }
    }

    /// How long a holder may be silent.
    pub fn lease(&self) -> Micros {
        self.lease
    }

    /// How far back the clock may step before the state moves with it.
    pub fn tolerance(&self) -> Micros {
        self.tolerance
    }

    /// Ends a lease. Says whether it was still held.
    pub fn release(&self, state: &mut LeaseState, id: LeaseId, now: Micros) -> bool {
        self.bring_up_to_date(state, now);
        match state.leases.iter().position(|lease| lease.id == id) {
            Some(found) => {
                state.leases.remove(found);
                true
            }
            None => false,
        }
    }

    /// Lets go of so many permits without saying whose, those that would end first.
    pub fn release_oldest(&self, state: &mut LeaseState, permits: u64, now: Micros) {
        self.bring_up_to_date(state, now);
        let mut missing = permits;
        for lease in &mut state.leases {
            let taken = lease.permits.min(missing);
            lease.permits -= taken;
            missing -= taken;
        }
        state.leases.retain(|lease| lease.permits > 0);
    }

    /// Renews a lease from now on. Says whether it was still held; one that has ended cannot be revived. While somebody
    /// has been promised a place that this lease will leave, it is not lengthened.
    pub fn heartbeat(&self, state: &mut LeaseState, id: LeaseId, now: Micros) -> bool {
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
    pub fn used(&self, state: &LeaseState, now: Micros) -> u64 {
        let moment = state.moment(now);
        state.leases.iter().filter(|lease| lease.until > moment).map(|lease| lease.permits).sum()
    }

    /// The state of a key that was counted under other numbers: holders keep what they hold, for no longer than the
    /// new lease from now.
    pub(crate) fn adopt(&self, old: &Self, state: &LeaseState, now: Micros) -> LeaseState {
        let mut adopted = state.clone();
        old.bring_up_to_date(&mut adopted, now);
        for lease in &mut adopted.leases {
            let begins = (lease.until - old.lease).max(adopted.last);
            lease.until = lease.until.min(begins + self.lease);
        }
        adopted
    }

    /// Notes the time and forgets the leases that have ended.
    fn bring_up_to_date(&self, state: &mut LeaseState, now: Micros) {
        let moment = state.moment(now);
        state.leases.retain(|lease| lease.until > moment);
        state.last = moment;
    }

    /// When the last lease begins; ahead of now if somebody waits for it.
    fn line(&self, state: &LeaseState) -> Micros {
        state.leases.last().map_or(Micros::ZERO, |lease| lease.until - self.lease)
    }
}

impl LeaseState {
    /// The moment to read the leases at: now, or a little later while a clock that stepped back catches up.
    fn moment(&self, now: Micros) -> Micros {
        if self.leases.is_empty() { now } else { now.max(self.last) }
    }

    /// The clock at the last change.
    pub fn last(&self) -> Micros {
        self.last
    }

    /// Leases read back from where a store kept them, first to end first.
    pub fn restore(last: Micros, leases: Vec<Lease>) -> Self {
        Self { last, leases }
    }

    /// The leases, first to end first.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// Bytes kept on the heap.
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

    fn follow(&self, state: &mut LeaseState, now: Micros) -> Micros {
        let back = stepped_back(state.last, now, self.tolerance);
        if back > Micros::ZERO {
            for lease in &mut state.leases {
                lease.until = lease.until - back;
            }
            state.last = state.last - back;
        }
        back
    }

    fn weigh(&self, state: &LeaseState, cost: u64, now: Micros) -> Weighed {
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

    fn charge(&self, state: &mut LeaseState, charge: Charge, now: Micros) {
        self.bring_up_to_date(state, now);
        let until = charge.at.max(state.last) + self.lease;
        state.insert(Lease { id: charge.lease, permits: charge.cost, until });
    }

    /// A penalty is a lease that nobody holds: it ends by itself. More than the limit weighs no more than the limit.
    fn penalize(&self, state: &mut LeaseState, charge: Charge, now: Micros) {
        let cost = charge.cost.min(self.limit);
        self.charge(state, Charge { cost, at: now, ..charge }, now);
    }

    /// Named, the lease is released. Without a name, permits come from the newest leases that have begun, or from those
    /// that began at the moment given.
    fn give_back(&self, state: &mut LeaseState, back: GiveBack, now: Micros) {
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

    fn look(&self, state: &LeaseState, now: Micros) -> Look {
        let (moment, held) = (state.moment(now), self.used(state, now));
        let remaining = if self.line(state) > moment { 0 } else { self.limit.saturating_sub(held) };
        let rests_at = match state.leases.last() {
            Some(last) if held > 0 => last.until,
            _ => now,
        };
        Look { remaining, rests_at }
    }

    fn line_ends(&self, state: &LeaseState, _now: Micros) -> Micros {
        self.line(state)
    }

    fn horizon(&self) -> Micros {
        MAX_WAIT
    }
}
