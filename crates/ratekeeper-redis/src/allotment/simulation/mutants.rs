//! Mutants: protocols with one safety rule left out. The simulation has to find each of them.
//!
//! The code that ships is not changed. A mutant tampers with messages, stored records or clocks.

use ratekeeper_core::{
    Policy, Span, Timestamp, Verb,
    algorithm::{Algorithm, Charge, LeaseId},
    store_api::{AllotmentCall, AllotmentReply, AllottedKey},
};

use super::messages::ClientRequest;

/// A safety rule that is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mutant {
    /// The store does not count what other holders have.
    DropHeldGate,
    /// An allotment that ends is not charged.
    ExpiryFrees,
    /// An allotment that ends is charged for the time of its grant.
    ExpiryAtGrant,
    /// An allotment that ends is charged for its end, when a window may have ended, instead of just before it.
    ExpiryAtEnd,
    /// A report is charged for the first use instead of the last.
    StampAtFirstUse,
    /// The holder uses permits after their end.
    NoLocalExpiry,
    /// The holder counts the time that permits last from the reply instead of the call.
    ExpiryFromReply,
    /// The holder takes any reply for that of its last call.
    LateReply,
    /// The store carries out calls that were overtaken.
    NoSequence,
    /// The holder reports what it used since its last call, instead of the running total.
    NoRunningTotal,
    /// The store does not count what the holder keeps when it grants more.
    KeepIsFree,
    /// The holder keeps permits that the store has charged when they ended.
    EndedKept,
    /// The store does not record what it grants.
    GrantNotStored,
    /// The allotment outlives a window that starts with the first request.
    OutlivesWindow,
    /// A reservation is weighed as if the held permits were used now.
    ReservationAsIfUsed,
    /// A reservation that others depend on is returned.
    CancelAny,
    /// The process takes back uses that it has reported.
    GiveBackAfterReport,
    /// The store carries out a refund twice.
    RefundTwice,
    /// A reset drops the records of the holders.
    ResetDropsAllotments,
    /// A change of the quota drops the records of the holders.
    ChangeDropsAllotments,
}

/// What has to be restored after a call.
#[derive(Debug, Default)]
pub(super) struct Tampered {
    /// Permits of other holders, by id.
    others: Vec<(u64, u64)>,
}

/// Tampers with the records before a step of the store.
pub(super) fn before_step(mutant: Option<Mutant>, policy: &Policy, key: &mut AllottedKey, now: Timestamp) {
    let ended = key.allotments.iter_mut().filter(|allotment| allotment.end <= now);
    match mutant {
        Some(Mutant::ExpiryFrees) => ended.for_each(|allotment| allotment.held = 0),
        Some(Mutant::ExpiryAtGrant) => ended.for_each(|allotment| allotment.end = allotment.end - Span::SECOND),
        Some(Mutant::ExpiryAtEnd) => {
            ended.filter(|allotment| allotment.end < now).for_each(|own| own.end = own.end + Span::MICROSECOND);
        }
        _ => return,
    }
    let _ = policy.decide_allotted(key, 0, &Verb::Peek, now);
}

/// Tampers with a call and the records before the store carries it out.
pub(super) fn before_call(
    mutant: Option<Mutant>,
    policy: &Policy,
    key: &mut AllottedKey,
    call: &mut AllotmentCall,
    now: Timestamp,
) -> Tampered {
    let mut tampered = Tampered::default();
    before_step(mutant, policy, key, now);
    let mut own = key.allotments.iter_mut().find(|allotment| allotment.id == call.id && allotment.end > now);
    match (mutant, &mut own) {
        (Some(Mutant::NoSequence), Some(own)) if call.seq <= own.seq => own.seq = call.seq - 1,
        (Some(Mutant::NoRunningTotal), Some(own)) => own.used = call.acknowledged.min(call.used),
        (Some(Mutant::KeepIsFree), _) => call.keep = 0,
        (Some(Mutant::DropHeldGate), _) => {
            let _ = policy.decide_allotted(key, 0, &Verb::Peek, now);
            for other in key.allotments.iter_mut().filter(|allotment| allotment.id != call.id) {
                tampered.others.push((other.id, other.held));
                other.held = 0;
            }
        }
        _ => {}
    }
    tampered
}

/// Tampers with the records and the reply after the store has carried out a call.
pub(super) fn after_call(
    mutant: Option<Mutant>,
    tampered: Tampered,
    key: &mut AllottedKey,
    call: &AllotmentCall,
    reply: &mut AllotmentReply,
) {
    for (id, held) in tampered.others {
        if let Some(other) = key.allotments.iter_mut().find(|allotment| allotment.id == id) {
            other.held = held;
        }
    }
    let own = key.allotments.iter_mut().find(|allotment| allotment.id == call.id);
    match (mutant, own) {
        (Some(Mutant::KeepIsFree), Some(own)) => {
            own.held += call.keep;
            reply.keep = call.keep;
        }
        (Some(Mutant::GrantNotStored), Some(own)) => own.held -= reply.granted,
        (Some(Mutant::OutlivesWindow), Some(own)) if own.held > 0 => {
            own.end = reply.status.decided_at + call.hold;
            reply.end = own.end;
        }
        (Some(Mutant::EndedKept), _) => reply.keep = call.keep,
        _ => {}
    }
}

/// Whether a verb is decided as if the key had no holders.
pub(super) fn ignores_holders(mutant: Option<Mutant>, verb: &Verb) -> bool {
    mutant == Some(Mutant::CancelAny) && matches!(verb, Verb::Refund { .. } | Verb::Undo { .. })
}

/// A reservation under a policy of one rule, weighed as if the held permits were used now. `None` if the mutant is off.
pub(super) fn reserve(
    mutant: Option<Mutant>,
    policy: &Policy,
    key: &mut AllottedKey,
    request: &ClientRequest,
    now: Timestamp,
) -> Option<(bool, Timestamp)> {
    let ([rule], Some(Mutant::ReservationAsIfUsed)) = (policy.rules(), mutant) else { return None };
    let _ = policy.decide_allotted(key, 0, &Verb::Peek, now);
    let (algorithm, held, limit) = (rule.algorithm(), key.held().permits, rule.algorithm().limit());
    if held == 0 || request.cost > limit {
        return None;
    }
    let at = algorithm.weigh(&key.state.states[0], request.cost + held, now).free_at;
    let is_allowed = at.since(now) <= request.max_wait;
    if is_allowed {
        algorithm.charge(&mut key.state.states[0], Charge { cost: request.cost, at, lease: LeaseId(0) }, now);
        key.state.promised = key.state.promised.max(at);
    }
    Some((is_allowed, at))
}
