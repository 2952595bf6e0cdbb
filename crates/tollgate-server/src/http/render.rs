//! Answers as JSON and as header fields.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use tollgate_core::{Micros, Policy, Source, Verdict};

use super::{Problem, Reply};
use crate::{
    engine::{Answer, Asked, Subject, Who},
    fields::Fields,
    line::{push, push_decision, push_field, push_millis, push_text, push_word},
};

/// The decision as `tollgate simulate` writes it, and a little more: who decided, and the lease that was taken. One line.
pub fn answer_line(answer: &Answer, subject: &Subject<'_>, asked: Asked, now: Micros) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    let told = answer.subjects.first();
    push(&mut line, b"{\"at_ms\":");
    push_millis(&mut line, answer.decision.as_ref().map_or(now, |decision| decision.decided_at));
    push(&mut line, b",\"key\":");
    push_text(&mut line, told.map_or("", |subject| &subject.key));
    let cost = match asked {
        Asked::Peek | Asked::Reset | Asked::Heartbeat { .. } => 0,
        Asked::Settle { actual, .. } => actual,
        _ => told.map_or(subject.cost.unwrap_or(1), |subject| subject.cost),
    };
    push_field(&mut line, b",\"cost\":", cost);
    push_word(&mut line, b",\"op\":\"", asked.name());
    line.push(b',');
    match &answer.decision {
        Some(decision) => {
            push_decision(&mut line, decision, |line, index| {
                push_text(line, answer.rule_name(index).unwrap_or_default());
            });
        }
        None => push(
            &mut line,
            b"\"verdict\":\"allow\",\"wait_us\":0,\"retry_after_us\":0,\"remaining\":null,\"limit\":null,\
              \"reset_after_us\":0,\"decided_by\":null,\"rules\":[]",
        ),
    }
    push(&mut line, b",\"policy\":");
    match told.and_then(|subject| subject.policy_name()) {
        Some(policy) => push_text(&mut line, policy),
        None => push(&mut line, b"null"),
    }
    push_word(&mut line, b",\"source\":\"", answer.source());
    if let Some(decision) = &answer.decision {
        if let Some(lease) = decision.lease {
            push_field(&mut line, b",\"lease\":", lease.0);
        }
        if let Asked::Heartbeat { .. } | Asked::Release { lease: Some(_) } = asked {
            push(&mut line, if decision.lease.is_some() { b",\"held\":true" } else { b",\"held\":false" });
        }
    }
    push(&mut line, b"}\n");
    line
}

/// The decision as a response.
pub(super) fn decided(line: Vec<u8>, answer: &Answer, fields: &Fields) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(line)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put_fields(answer, fields, reply.headers_mut());
    reply
}

/// A proxy's question: go on, or a refusal with the status that it or the operator chose.
pub(super) fn allowed_or(deny: Option<StatusCode>, answer: &Answer, fields: &Fields) -> Reply {
    if answer.is_allowed() {
        let mut reply = Response::new(Full::default());
        put_fields(answer, fields, reply.headers_mut());
        put_terms(answer, reply.headers_mut());
        return reply;
    }
    if answer.decision.as_ref().is_some_and(|decision| decision.source == Source::Closed) {
        // Nobody is over a limit; nobody could look.
        return Problem::no_decision(deny.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)).reply();
    }
    let deny = deny.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let violated = match (&answer.decision, fields.of(policies(answer))) {
        (Some(decision), Some(fields)) => fields.violated(decision).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let detail = match answer.verdict() {
        Verdict::Deny { retry_after } => format!("the same request passes after {retry_after}"),
        _ => "waiting cannot help: the request asks for more than is ever granted".to_owned(),
    };
    let mut reply = Problem::quota_exceeded(deny, detail, violated).reply();
    put_fields(answer, fields, reply.headers_mut());
    reply
}

fn put_fields(answer: &Answer, fields: &Fields, headers: &mut HeaderMap) {
    if let (Some(decision), Some(fields)) = (&answer.decision, fields.of(policies(answer))) {
        fields.insert_into(decision, headers);
    }
}

/// What an allowed request has to keep to, where that is more than to go: a wait, or a place to give back.
fn put_terms(answer: &Answer, headers: &mut HeaderMap) {
    let Some(decision) = &answer.decision else { return };
    if decision.wait() > Micros::ZERO {
        headers.insert(WAIT, HeaderValue::from(decision.wait().get()));
    }
    if let Some(lease) = decision.lease {
        headers.insert(LEASE, HeaderValue::from(lease.0));
    }
}

fn policies(answer: &Answer) -> impl Iterator<Item = &Arc<Policy>> {
    answer.subjects.iter().filter_map(|subject| subject.policy.as_ref())
}

/// Whom no policy is about keeps the name it was asked by.
pub fn name_undecided(answer: &mut Answer, subjects: &[Subject<'_>]) {
    for (told, subject) in answer.subjects.iter_mut().zip(subjects) {
        if told.policy.is_none() {
            told.key = shown_key(subject.who).into();
        }
    }
}

/// The word for whom a request is from, where nobody decided.
fn shown_key(who: Who<'_>) -> String {
    match who {
        Who::Key(key) => key.to_owned(),
        Who::Descriptor(entries) => crate::rulebook::of_entries(entries),
    }
}

/// How long an allowed request is to be held back, in microseconds.
const WAIT: HeaderName = HeaderName::from_static("tollgate-wait-us");
/// The place taken under a `concurrency` rule, to be given back at `/v1/release`.
const LEASE: HeaderName = HeaderName::from_static("tollgate-lease");
