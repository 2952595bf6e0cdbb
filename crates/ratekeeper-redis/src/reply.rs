//! Replies of the scripts, converted to decisions.

use ratekeeper_core::{
    Decision, LeaseId, Policy, Release, Span, Take, Timestamp, Verb,
    algorithm::{Algorithm, Look, State, Weighed},
    store_api::{AllotmentCall, AllotmentStep, AllottedKey, ScriptTake, decision_from_look, decision_from_take},
};
use redis::Value;

use crate::{
    bytes::Reader,
    request::Tagged,
    state::{self, Tag},
};

/// The reply of a script.
#[derive(Debug)]
pub(crate) enum Reply {
    Decided(Decision),
    /// The deadline had passed, and nothing was done.
    Late,
    /// The value of the key with this index cannot be read under the current rules.
    NotOurs {
        subject: usize,
        value: Vec<u8>,
        now: Timestamp,
    },
    /// The id was charged before, under other rules than the current.
    RepeatedUnread,
    /// A commit or a cancel of an id that is not known.
    UnknownId,
    /// The server's time is too far from the one that the windows of a time zone were sent for. Nothing was done.
    OtherTime(Timestamp),
    /// A reply that our scripts do not return.
    Strange,
}

/// The reply to a merged call.
#[derive(Debug)]
pub(crate) enum MergedReply {
    /// One decision per request.
    Decided(Vec<Decision>),
    /// Nothing was done: the log is too long to be read as a whole, and its takes are cheaper one by one.
    TooLong,
    /// No decision.
    Other(Reply),
}

/// The reply to a take.
pub(crate) fn to_take(subjects: &[Tagged<'_>], take: &Take, reply: &Value) -> Reply {
    decided(reply, |code, now, rest| match code {
        UNCHANGED => from_unchanged_state(subjects, take, now, rest),
        ALLOWED | REFUSED => from_numbers(subjects, take, code == REFUSED, now, rest),
        _ => None,
    })
    .unwrap_or_else(|tag| {
        tag.and_then(|value| from_new_state(subjects, take, value)).map_or(Reply::Strange, Reply::Decided)
    })
}

/// The reply to a take with terms.
pub(crate) fn to_take_with_terms(subjects: &[Tagged<'_>], take: &Take, reply: &Value) -> Reply {
    match wrapped(reply) {
        Some((REPEATED, rest)) => repeated(subjects, rest).map_or(Reply::RepeatedUnread, Reply::Decided),
        Some((GRANTED, rest)) => granted(rest, |inner, granted| {
            let charged: Vec<Tagged<'_>> =
                subjects.iter().map(|subject| subject.cost(subject.cost.min(granted))).collect();
            to_take(&charged, take, inner)
        }),
        _ => to_take(subjects, take, reply),
    }
}

/// The decision of a recorded request, which may have had another wait and has another lease.
fn repeated(subjects: &[Tagged<'_>], record: &[u8]) -> Option<Decision> {
    let mut rest = Reader(record);
    rest.bytes(RECORD_BEFORE_LEASE)?;
    let (lease, max_wait, whole_wait) = (rest.number(7)?, Span::from_micros(rest.number(7)?), rest.number(1)?);
    let mut take = Take::within(max_wait);
    take.whole_wait = whole_wait == 1;
    let charged: Vec<Tagged<'_>> = subjects.iter().map(|subject| subject.cost(subject.cost.max(1))).collect();
    match to_take_with_terms(&charged, &take, &Value::BulkString(rest.0.to_vec())) {
        Reply::Decided(decision) => Some(decision.with_lease((lease > 0).then_some(LeaseId(lease))).repeated()),
        _ => None,
    }
}

/// The reply to a commit or a cancel.
pub(crate) fn to_finish(policy: &Policy, reply: &Value) -> Reply {
    match wrapped(reply) {
        Some((UNKNOWN_ID, _)) => Reply::UnknownId,
        Some((GRANTED, rest)) => granted(rest, |inner, _| to_amend(policy, &Verb::Peek, inner)),
        _ => to_amend(policy, &Verb::Peek, reply),
    }
}

/// The code of a reply that carries another one, and what follows its time.
fn wrapped(reply: &Value) -> Option<(u64, &[u8])> {
    let Value::BulkString(value) = reply else { return None };
    let mut rest = Reader(value);
    let code = rest.number(6)?;
    rest.timestamp()?;
    Some((code, rest.0))
}

/// A reply with the number of permits charged.
fn granted(rest: &[u8], read: impl FnOnce(&Value, u64) -> Reply) -> Reply {
    let mut rest = Reader(rest);
    let Some(granted) = rest.number(7) else { return Reply::Strange };
    match read(&Value::BulkString(rest.0.to_vec()), granted) {
        Reply::Decided(decision) => Reply::Decided(decision.with_granted(Some(granted))),
        other => other,
    }
}

/// The reply to a merged call: the decisions of the requests, in order. They follow from the value before the first of
/// them, which the reply carries.
pub(crate) fn to_merged<'a>(
    subject: Tagged<'_>,
    requests: impl Iterator<Item = (u64, &'a Verb)>,
    reply: &Value,
) -> MergedReply {
    let mut decisions = Vec::new();
    let mut too_long = false;
    let read = decided(reply, |code, now, rest| {
        too_long = code == TOO_LONG;
        let policy = subject.policy;
        let mut key = value_before(subject, rest)?;
        decisions.extend(requests.map(|(cost, verb)| decide_next(policy, &mut key, cost, verb, now)));
        (code == MERGED).then(|| decisions.pop()).flatten()
    });
    match read {
        Ok(Reply::Decided(last)) => {
            decisions.push(last);
            MergedReply::Decided(decisions)
        }
        _ if too_long => MergedReply::TooLong,
        Ok(other) => MergedReply::Other(other),
        Err(_) => MergedReply::Other(Reply::Strange),
    }
}

/// Decides the next request of a merged call. A policy of one meter takes the fast path of the embedded store: a thousand
/// requests are decided for one call.
fn decide_next(policy: &Policy, key: &mut AllottedKey, cost: u64, verb: &Verb, now: Timestamp) -> Decision {
    let AllottedKey { state, allotments } = key;
    if let Verb::Take(take) = verb
        && allotments.is_empty()
        && state.promised <= now
        && state.block.until <= now
        && let [State::Meter(meter)] = state.states.as_mut_slice()
        && let Some(taken) = policy.take_metered(meter, cost, take, now)
    {
        if let Some(promised) = taken.promised {
            state.promised = promised;
        }
        return Decision::of_one(taken.rule, now);
    }
    policy.decide_allotted(key, cost, verb, now).decision
}

/// The reply to a holder's call. It follows from the value before the call.
#[derive(Debug)]
pub(crate) enum AllotReply {
    /// The decisions of the requests, the grant, and whether the store knew the holder's allotment.
    Done(AllotmentStep, Known),
    /// No decision.
    Other(Reply),
}

/// Whether the store knew an allotment that had not ended by the holder's knowledge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Known {
    Yes,
    /// Its state was lost.
    Lost,
}

pub(crate) fn to_allot<'a>(
    subject: Tagged<'_>,
    call: &AllotmentCall,
    requests: impl Iterator<Item = (u64, &'a Verb)>,
    reply: &Value,
) -> AllotReply {
    let mut done = None;
    let read = decided(reply, |code, now, rest| {
        let mut key = value_before(subject, rest)?;
        let is_known = key.allotments.iter().any(|allotment| allotment.id == call.id);
        let step = subject.policy.allot(&mut key, call, requests, now);
        // A first call has nothing to lose.
        let has_held = call.keep > 0 || call.used > call.acknowledged;
        let known = if !is_known && call.end > now && has_held { Known::Lost } else { Known::Yes };
        let status = subject.policy.decide_allotted(&mut key, 0, &Verb::Peek, now).decision;
        done = Some((step, known));
        (code == MERGED).then_some(status)
    });
    match (read, done) {
        (Ok(Reply::Decided(_)), Some((step, known))) => AllotReply::Done(step, known),
        (Ok(other), _) => AllotReply::Other(other),
        (Err(_), _) => AllotReply::Other(Reply::Strange),
    }
}

/// The key before the call, from the value at the end of its reply.
fn value_before(Tagged { policy, tag, .. }: Tagged<'_>, rest: Reader<'_>) -> Option<AllottedKey> {
    match rest.0 {
        [] => Some(AllottedKey::new(policy.fresh())),
        value => Some(state::decode_allotted(policy, tag, value)?.1),
    }
}

/// The reply to any other verb.
pub(crate) fn to_amend(policy: &Policy, verb: &Verb, reply: &Value) -> Reply {
    decided(reply, |code, now, mut rest| {
        let (blocked, held) = (rest.timestamp()?, rest.number(1)?);
        let looks = rest.all(|rest| Some(Look { remaining: rest.number(7)?, reset_at: rest.timestamp()? }))?;
        let lease = lease_of(verb).filter(|_| held == 1);
        let complete = code == ALLOWED && looks.len() == policy.rules().len();
        complete.then(|| decision_from_look(policy, &looks, blocked, lease, now))
    })
    .unwrap_or(Reply::Strange)
}

/// Reads the code and the time at the start of a reply. A reply that starts with a tag is a value, and is returned as an
/// error.
fn decided<'a>(
    reply: &'a Value,
    read: impl FnOnce(u64, Timestamp, Reader<'a>) -> Option<Decision>,
) -> Result<Reply, Option<&'a [u8]>> {
    let Value::BulkString(value) = reply else {
        return Err(None);
    };
    if Tag::found_in(value).is_some() {
        return Err(Some(value));
    }
    let mut rest = Reader(value);
    let (Some(code), Some(now)) = (rest.number(6), rest.timestamp()) else {
        return Err(None);
    };
    Ok(match code {
        LATE => Reply::Late,
        NOT_OURS => {
            let subject = rest.number(1).and_then(|subject| usize::try_from(subject).ok()?.checked_sub(1));
            let Some(subject) = subject else { return Err(None) };
            Reply::NotOurs { subject, value: rest.0.to_vec(), now }
        }
        OTHER_TIME => Reply::OtherTime(now),
        code => read(code, now, rest).map_or(Reply::Strange, Reply::Decided),
    })
}

const UNCHANGED: u64 = 0;
const ALLOWED: u64 = 1;
const REFUSED: u64 = 2;
const LATE: u64 = 3;
const NOT_OURS: u64 = 4;
const MERGED: u64 = 5;
const UNKNOWN_ID: u64 = 6;
const TOO_LONG: u64 = 7;
const REPEATED: u64 = 8;
const GRANTED: u64 = 9;
/// The parts of a record before its lease, in bytes.
const RECORD_BEFORE_LEASE: usize = 22;
const OTHER_TIME: u64 = 10;

/// A request that was admitted at once: the decision follows from the new state.
fn from_new_state(subjects: &[Tagged<'_>], take: &Take, value: &[u8]) -> Option<Decision> {
    let [Tagged { policy, tag, .. }] = subjects else { return None };
    let (now, subject) = state::decode(policy, *tag, value)?;
    let goes = Weighed { free_at: now, go_at: now };
    let looks = policy.rules().iter().zip(&subject.states);
    let rules: Vec<_> = looks.map(|(rule, state)| (Some(goes), rule.algorithm().look(state, now))).collect();
    let result = ScriptTake {
        rules: &rules,
        after: &[],
        blocked_until: Timestamp::EPOCH,
        denied: false,
        charges: charges(subjects),
    };
    Some(decision_from_take(&[policy], take, &result, now))
}

/// A refused take without a wait: the Rust twin decides it again, on the same state at the same time.
fn from_unchanged_state(subjects: &[Tagged<'_>], take: &Take, now: Timestamp, state: Reader<'_>) -> Option<Decision> {
    let [Tagged { policy, tag, cost, .. }] = subjects else { return None };
    let mut subject = match state.0 {
        [] => policy.fresh(),
        value => state::decode(policy, *tag, value)?.1,
    };
    let step = policy.decide(&mut subject, *cost, &Verb::Take(*take), now);
    (!step.changed).then_some(step.decision)
}

/// A decision from the numbers that the script computed.
fn from_numbers(
    subjects: &[Tagged<'_>],
    take: &Take,
    refused: bool,
    now: Timestamp,
    mut rest: Reader<'_>,
) -> Option<Decision> {
    let policies: Vec<&Policy> = subjects.iter().map(|subject| subject.policy).collect();
    let blocked = rest.timestamp()?;
    let ready = || policies.iter().flat_map(|policy| policy.rules());
    let numbers = ready().map(|_| {
        let weighed = weighed(&mut rest)?;
        Some((weighed, Look { remaining: rest.number(7)?, reset_at: rest.timestamp()? }))
    });
    let rules: Vec<_> = numbers.collect::<Option<_>>()?;
    let after = ready().zip(&rules).map(|(rule, (before, _))| match rule.changes_on_refusal() {
        true => weighed(&mut rest),
        false => Some(*before),
    });
    let after: Vec<_> = after.collect::<Option<_>>()?;
    let result = ScriptTake {
        rules: &rules,
        after: &after,
        blocked_until: blocked,
        denied: refused,
        charges: charges(subjects),
    };
    rest.0.is_empty().then(|| decision_from_take(&policies, take, &result, now))
}

fn charges(subjects: &[Tagged<'_>]) -> bool {
    subjects.iter().any(|subject| subject.cost > 0)
}

/// The time at which a rule admits the request, plus one, and the time at which it proceeds; 0 means never.
fn weighed(rest: &mut Reader<'_>) -> Option<Option<Weighed>> {
    let (free, go_at) = (rest.number(7)?, rest.timestamp()?);
    Some(free.checked_sub(1).map(|free| Weighed { free_at: Timestamp::from_micros(free), go_at }))
}

fn lease_of(verb: &Verb) -> Option<LeaseId> {
    match verb {
        Verb::Release(Release::Lease(id)) | Verb::Heartbeat(id) => Some(*id),
        _ => None,
    }
}
