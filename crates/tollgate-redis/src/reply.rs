//! What a script brings home, and what it means.

use redis::Value;
use tollgate_core::{
    Decision, LeaseId, Micros, Policy, Release, Take, Verb,
    algorithm::{Algorithm, Look, Weighed},
    looked_at_elsewhere, taken_elsewhere,
};

use crate::{
    bytes::Reader,
    request::Tagged,
    state::{self, Tag},
};

/// A script's answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It was decided.
    Decided(Decision),
    /// The deadline had passed, and nothing was done.
    Late,
    /// The value of this subject was not written under the rules we know.
    NotOurs { subject: usize, value: Vec<u8>, now: Micros },
    /// No script of ours answers like this.
    Strange,
}

/// The answer to a take.
pub(crate) fn to_take(subjects: &[Tagged<'_>], take: &Take, reply: &Value) -> Reply {
    // Whether anything was charged is all that is left to say about several costs; one alone is told in full.
    let take = &take.times(subjects.iter().map(|subject| subject.times).max().unwrap_or_default());
    decided(reply, |code, now, rest| match code {
        UNCHANGED => told_by_state_as_it_was(subjects, take, now, rest),
        ALLOWED | REFUSED => told_in_numbers(subjects, take, code == REFUSED, now, rest),
        _ => None,
    })
    .unwrap_or_else(|tag| {
        tag.and_then(|value| told_by_new_state(subjects, take, value)).map_or(Reply::Strange, Reply::Decided)
    })
}

/// The answer to any other verb.
pub(crate) fn to_amend(policy: &Policy, verb: &Verb, reply: &Value) -> Reply {
    decided(reply, |code, now, mut rest| {
        let (blocked, held) = (rest.micros()?, rest.number(1)?);
        let looks = rest.all(|rest| Some(Look { remaining: rest.number(7)?, rests_at: rest.micros()? }))?;
        let lease = lease_of(verb).filter(|_| held == 1);
        let complete = code == ALLOWED && looks.len() == policy.rules().len();
        complete.then(|| looked_at_elsewhere(policy, &looks, blocked, lease, now))
    })
    .unwrap_or(Reply::Strange)
}

/// How every answer begins: a code, and the time. One that begins with a tag is a state, and is handed back.
fn decided<'a>(
    reply: &'a Value,
    read: impl FnOnce(u64, Micros, Reader<'a>) -> Option<Decision>,
) -> Result<Reply, Option<&'a [u8]>> {
    let Value::BulkString(value) = reply else {
        return Err(None);
    };
    if Tag::found_in(value).is_some() {
        return Err(Some(value));
    }
    let mut rest = Reader(value);
    let (Some(code), Some(now)) = (rest.number(6), rest.micros()) else {
        return Err(None);
    };
    Ok(match code {
        LATE => Reply::Late,
        NOT_OURS => {
            let subject = rest.number(1).and_then(|subject| usize::try_from(subject).ok()?.checked_sub(1));
            let Some(subject) = subject else { return Err(None) };
            Reply::NotOurs { subject, value: rest.0.to_vec(), now }
        }
        code => read(code, now, rest).map_or(Reply::Strange, Reply::Decided),
    })
}

const UNCHANGED: u64 = 0;
const ALLOWED: u64 = 1;
const REFUSED: u64 = 2;
const LATE: u64 = 3;
const NOT_OURS: u64 = 4;

/// A request that passed at once: the state it left behind tells the rest.
fn told_by_new_state(subjects: &[Tagged<'_>], take: &Take, value: &[u8]) -> Option<Decision> {
    let [Tagged { policy, tag, .. }] = subjects else { return None };
    let (now, subject) = state::decode(policy, *tag, value)?;
    let goes = Weighed { free_at: now, go_at: now };
    let looks = policy.rules().iter().zip(&subject.states);
    let rules: Vec<_> = looks.map(|(rule, state)| (Some(goes), rule.limiting().look(state, now))).collect();
    Some(taken_elsewhere(&[policy], take, &rules, &[], Micros::ZERO, false, now))
}

/// A try that was refused: our own side of the twins, asked about the same state at the same time, says what to tell.
fn told_by_state_as_it_was(subjects: &[Tagged<'_>], take: &Take, now: Micros, state: Reader<'_>) -> Option<Decision> {
    let [Tagged { policy, tag, .. }] = subjects else { return None };
    let mut subject = match state.0 {
        [] => policy.fresh(),
        value => state::decode(policy, *tag, value)?.1,
    };
    let step = policy.decide(&mut subject, &Verb::Take(*take), now);
    (!step.changed).then_some(step.decision)
}

fn told_in_numbers(
    subjects: &[Tagged<'_>],
    take: &Take,
    refused: bool,
    now: Micros,
    mut rest: Reader<'_>,
) -> Option<Decision> {
    let policies: Vec<&Policy> = subjects.iter().map(|subject| subject.policy).collect();
    let blocked = rest.micros()?;
    let ready = || policies.iter().flat_map(|policy| policy.rules());
    let told = ready().map(|_| {
        let weighed = weighed(&mut rest)?;
        Some((weighed, Look { remaining: rest.number(7)?, rests_at: rest.micros()? }))
    });
    let rules: Vec<_> = told.collect::<Option<_>>()?;
    let after = ready().zip(&rules).map(|(rule, (before, _))| match rule.counts_refused() {
        true => weighed(&mut rest),
        false => Some(*before),
    });
    let after: Vec<_> = after.collect::<Option<_>>()?;
    rest.0.is_empty().then(|| taken_elsewhere(&policies, take, &rules, &after, blocked, refused, now))
}

/// When a rule is free, plus one, and when the request goes; 0 stands for never.
fn weighed(rest: &mut Reader<'_>) -> Option<Option<Weighed>> {
    let (free, go_at) = (rest.number(7)?, rest.micros()?);
    Some(free.checked_sub(1).map(|free| Weighed { free_at: Micros(free), go_at }))
}

fn lease_of(verb: &Verb) -> Option<LeaseId> {
    match verb {
        Verb::Release(Release::Lease(id)) | Verb::Heartbeat(id) => Some(*id),
        _ => None,
    }
}
