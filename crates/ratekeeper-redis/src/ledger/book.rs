//! Booking uncharged grants on a key's state: the twin of lua/charge.lua, for tests.
//!
//! Permits are booked for now, or, while one of the grants has yet to go, for the latest of their moments: later than
//! they were granted, so that none of them lapses too early. What is used up in a window cannot be used up further, as
//! with a penalty. Leases are put in by name and end when they would have.

use ratekeeper_core::{
    LeaseId, Policy, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Charge, Lease, LeaseState, Leases, State},
    store_api::KeyState,
};

use super::Bill;

/// Books a bill; the subject has been moved along with the clock.
pub(crate) fn book(policy: &Policy, subject: &mut KeyState, bill: &Bill, now: Timestamp) {
    let mut is_ahead = false;
    for ((rule, state), owed) in policy.rules().iter().zip(&mut subject.states).zip(&bill.owed) {
        match rule.algorithm() {
            AnyAlgorithm::Leases(it) => register(it, state, &owed.leases, &bill.released, now),
            _ if owed.permits == 0 => {}
            limiting if bill.due > now => {
                limiting.charge(state, Charge { cost: owed.permits, at: bill.due, lease: LeaseId(0) }, now);
                is_ahead = true;
            }
            limiting => limiting.penalize(state, Charge { cost: owed.permits, at: now, lease: LeaseId(0) }, now),
        }
    }
    if is_ahead {
        subject.promised = subject.promised.max(bill.due);
    }
}

fn register(it: &Leases, state: &mut State, leases: &[Lease], released: &[LeaseId], now: Timestamp) {
    if leases.is_empty() && released.is_empty() {
        return;
    }
    if !matches!(state, State::Leases(_)) {
        *state = State::Leases(Box::default());
    }
    let State::Leases(held) = state else { return };
    // Ends what has ended and notes the time.
    it.release(held, LeaseId(u64::MAX), now);
    let moment = held.last();
    let mut all: Vec<Lease> = held.leases().to_vec();
    for id in released {
        if let Some(found) = all.iter().position(|lease| lease.id == *id) {
            all.remove(found);
        }
    }
    for lease in leases.iter().filter(|lease| lease.until > moment) {
        let found = all.iter().position(|other| other.id == lease.id).map(|found| all.remove(found));
        let until = found.map_or(lease.until, |found| found.until.max(lease.until));
        let place = all.partition_point(|other| other.until <= until);
        all.insert(place, Lease { until, ..*lease });
    }
    **held = LeaseState::restore(moment, all);
}
