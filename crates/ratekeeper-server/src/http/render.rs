//! Decisions as HTTP responses: JSON and header fields.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use ratekeeper_core::{Release, Source, Span, Timestamp, Verb, Verdict};

use ratekeeper_http::{
    decision_json::{push_decision, push_request, push_retry_after, push_rules, push_unmatched},
    json::{push, push_field, push_string, push_word},
};

use super::{HttpResponse, Problem, problem};
use crate::{
    engine::{Answer, SubjectAnswer},
    header_cache::HeaderCache,
    request::{Descriptor, Subject},
};

/// The decision as one line of JSON: the fields that `ratekeeper simulate` writes, then policy, source and lease. If
/// several keys were counted, `key`, `cost` and `policy` are those that determined the decision, and `subjects` has all.
pub fn answer_line(answer: &Answer, subjects: &[Subject<'_>], verb: Verb, now: Timestamp) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    let deciding = answer.deciding();
    let at = answer.decision.as_ref().map_or(now, |decision| decision.decided_at);
    let cost = cost(verb, deciding.map_or(1, |subject| subject.cost));
    push_request(&mut line, at, deciding.map_or("", |subject| &subject.key), cost, verb.name());
    match &answer.decision {
        Some(decision) => {
            push_decision(&mut line, decision, |line, index| {
                push_string(line, answer.rule_name(index).unwrap_or_default());
            });
        }
        None => push_unmatched(&mut line),
    }
    push(&mut line, b",\"policy\":");
    push_optional(&mut line, deciding.and_then(SubjectAnswer::policy_name));
    push_word(&mut line, b",\"source\":\"", answer.source());
    if let Some(estimated_wait) = answer.estimated_wait {
        push_field(&mut line, b",\"estimated_wait_us\":", estimated_wait.as_micros());
    }
    if let Some(decision) = &answer.decision {
        if let Some(granted) = decision.granted {
            push_field(&mut line, b",\"granted\":", granted);
        }
        if let Some(lease) = decision.lease {
            push_field(&mut line, b",\"lease\":", lease.0);
        }
        if let Verb::Heartbeat(_) | Verb::Release(Release::Lease(_)) = verb {
            push(&mut line, if decision.lease.is_some() { b",\"held\":true" } else { b",\"held\":false" });
        }
    }
    if subjects.len() > 1 || answer.subjects.len() > 1 {
        push_subjects(&mut line, answer, verb);
    }
    push(&mut line, b"}\n");
    line
}

/// The cost that is shown for a verb.
fn cost(verb: Verb, cost: u64) -> u64 {
    match verb {
        Verb::Peek | Verb::Reset | Verb::Heartbeat(_) | Verb::Block { .. } | Verb::Cancel { .. } => 0,
        Verb::Settle { actual, .. } | Verb::Commit { actual, .. } => actual,
        _ => cost,
    }
}

/// Appends `subjects`: each key under each policy, with its part of the decision.
fn push_subjects(line: &mut Vec<u8>, answer: &Answer, verb: Verb) {
    push(line, b",\"subjects\":[");
    for (index, subject) in answer.subjects.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        push_field(line, b"{\"subject\":", subject.subject as u64);
        push(line, b",\"key\":");
        push_string(line, &subject.key);
        push(line, b",\"policy\":");
        push_optional(line, subject.policy_name());
        push_field(line, b",\"cost\":", cost(verb, subject.cost));
        push_word(line, b",\"verdict\":\"", subject.verdict.name());
        push_retry_after(line, subject.verdict.retry_after_span());
        push_rules(line, answer.rules_of(subject));
        push(line, b"}");
    }
    push(line, b"]");
}

fn push_optional(line: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => push_string(line, text),
        None => push(line, b"null"),
    }
}

/// The decision as a response with status 200.
pub(super) fn decided(line: Vec<u8>, answer: &Answer, fields: &HeaderCache) -> HttpResponse {
    let mut reply = Response::new(Full::new(Bytes::from(line)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put_fields(answer, fields, reply.headers_mut());
    reply
}

/// The response of `/v1/auth`: 200 if allowed, else a problem with the status `deny`. Without `deny`, the status is
/// 429, or 503 if a rule failed closed.
pub(super) fn allowed_or(deny: Option<StatusCode>, answer: &Answer, fields: &HeaderCache) -> HttpResponse {
    if answer.is_allowed() {
        let mut reply = Response::new(Full::default());
        put_fields(answer, fields, reply.headers_mut());
        put_terms(answer, reply.headers_mut());
        return reply;
    }
    if answer.decision.as_ref().is_some_and(|decision| decision.source == Source::Closed) {
        // A rule failed closed: no limit was exceeded, there is no decision.
        let problem = problem::no_decision();
        let status = deny.unwrap_or(problem.status());
        return problem::reply(problem.with_status(status));
    }
    let deny = deny.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let detail = match (answer.verdict(), answer.estimated_wait) {
        (Verdict::Deny { retry_after }, Some(estimate)) => {
            format!("a permit is free in about {estimate}, and in {retry_after} at the latest")
        }
        (Verdict::Deny { retry_after }, None) => format!("the same request passes after {retry_after}"),
        _ => "a retry cannot succeed: the cost exceeds the limit".to_owned(),
    };
    let mut problem = Problem::quota_exceeded(detail).with_status(deny);
    if let (Some(decision), Some(fields)) = (&answer.decision, fields.of(answer.policies())) {
        problem = problem.with_violated(fields.violated(decision));
    }
    let mut reply = problem::reply(problem);
    put_fields(answer, fields, reply.headers_mut());
    reply
}

fn put_fields(answer: &Answer, fields: &HeaderCache, headers: &mut HeaderMap) {
    if let (Some(decision), Some(fields)) = (&answer.decision, fields.of(answer.policies())) {
        fields.insert_into_with(decision, answer.estimated_wait, headers);
    }
}

/// Conditions of an allowed request: a wait before it may proceed, a lease to release.
fn put_terms(answer: &Answer, headers: &mut HeaderMap) {
    let Some(decision) = &answer.decision else { return };
    if decision.verdict.wait() > Span::ZERO {
        headers.insert(WAIT, HeaderValue::from(decision.verdict.wait().as_micros()));
    }
    if let Some(lease) = decision.lease {
        headers.insert(LEASE, HeaderValue::from(lease.0));
    }
}

/// Sets the key of subjects that match no policy to the key or descriptor of the request.
pub fn name_undecided(answer: &mut Answer, subjects: &[Subject<'_>]) {
    for answered in &mut answer.subjects {
        if let (None, Some(subject)) = (&answered.policy, subjects.get(answered.subject)) {
            answered.key = shown_key(subject.descriptor).into();
        }
    }
}

/// The key that is shown for a subject without a policy.
pub(crate) fn shown_key(descriptor: Descriptor<'_>) -> String {
    match descriptor {
        Descriptor::Key(key) | Descriptor::Policy { key, .. } => key.to_owned(),
        Descriptor::Entries(entries) => ratekeeper_rules::key::of_entries(entries),
    }
}

/// Time that an allowed request has to wait, in microseconds.
const WAIT: HeaderName = HeaderName::from_static("ratekeeper-wait-us");
/// The lease under a `concurrency` rule, to be released at `/v1/release`.
const LEASE: HeaderName = HeaderName::from_static("ratekeeper-lease");
