//! Replies of commands on limits: the fields of the HTTP response under the same names.
//!
//! A map in RESP 3, alternating names and values in RESP 2. Names and order of the fields up to `lease` are a contract;
//! later ones follow them. If no rule limits a key, `limit` and `remaining` are null and `source` has the reason.

use ratekeeper_core::{DecidedBy, Decision, Release, RuleDecision, Span, Verb, Verdict};

use super::Replies;
use crate::{
    engine::{Answer, SubjectAnswer},
    http::shown_key,
    request::Subject,
};

/// Writes the fields of an answer.
pub(super) fn write(replies: &mut Replies, answer: &Answer, verb: Verb, subjects: &[Subject<'_>]) {
    let verdict = answer.verdict();
    let wait = if let Verdict::Allow { wait } = verdict { wait } else { Span::ZERO };
    let decision = answer.decision.as_ref();
    let lease = decision.and_then(|decision| decision.lease);
    let shows_held = matches!(verb, Verb::Heartbeat(_) | Verb::Release(Release::Lease(_)));
    let is_joint = subjects.len() > 1 || answer.subjects.len() > 1;
    let granted = decision.and_then(|decision| decision.granted);
    let fields = [true, true, true, lease.is_some(), shows_held, is_joint, granted.is_some()];
    replies.map(8 + fields.iter().filter(|shown| **shown).count());
    field(replies, "verdict", |replies| replies.bulk(verdict.name()));
    field(replies, "wait_us", |replies| number(replies, Some(wait.as_micros())));
    field(replies, "retry_after_us", |replies| retry_after(replies, verdict));
    field(replies, "remaining", |replies| number(replies, decision.map(Decision::remaining)));
    field(replies, "limit", |replies| number(replies, decision.map(Decision::limit)));
    let reset_after = decision.map_or(0, |decision| decision.reset_after_span().as_micros());
    field(replies, "reset_after_us", |replies| number(replies, Some(reset_after)));
    let decided_by = decision.and_then(|decision| match decision.decided_by {
        DecidedBy::Rule(position) => answer.rule_name(position),
        DecidedBy::Block => Some("block"),
        DecidedBy::Nothing => None,
    });
    field(replies, "decided_by", |replies| word(replies, decided_by));
    field(replies, "source", |replies| replies.bulk(answer.source()));
    if let Some(lease) = lease {
        field(replies, "lease", |replies| number(replies, Some(lease.0)));
    }
    if shows_held {
        field(replies, "held", |replies| replies.integer(i64::from(lease.is_some())));
    }
    let policy = answer.deciding().and_then(SubjectAnswer::policy_name);
    field(replies, "policy", |replies| word(replies, policy));
    field(replies, "at_us", |replies| number(replies, decision.map(|decision| decision.decided_at.as_micros())));
    field(replies, "rules", |replies| {
        let all = decision.map_or(&[][..], |decision| &decision.rules);
        replies.array(all.len());
        for (position, rule) in all.iter().enumerate() {
            write_rule(replies, answer.rule_name(position).unwrap_or_default(), rule);
        }
    });
    if granted.is_some() {
        field(replies, "granted", |replies| number(replies, granted));
    }
    if is_joint {
        field(replies, "subjects", |replies| {
            replies.array(answer.subjects.len());
            answer.subjects.iter().for_each(|answered| write_subject(replies, answer, answered, subjects));
        });
    }
}

/// One key under one policy, with its part of the decision.
fn write_subject(replies: &mut Replies, answer: &Answer, answered: &SubjectAnswer, subjects: &[Subject<'_>]) {
    replies.map(7);
    field(replies, "subject", |replies| number(replies, u64::try_from(answered.subject).ok()));
    field(replies, "key", |replies| match (answered.policy_name(), subjects.get(answered.subject)) {
        (None, Some(subject)) => replies.bulk(shown_key(subject.descriptor)),
        _ => replies.bulk(answered.key.as_bytes()),
    });
    field(replies, "policy", |replies| word(replies, answered.policy_name()));
    field(replies, "cost", |replies| number(replies, Some(answered.cost)));
    field(replies, "verdict", |replies| replies.bulk(answered.verdict.name()));
    field(replies, "retry_after_us", |replies| retry_after(replies, answered.verdict));
    field(replies, "rules", |replies| {
        replies.array(answer.rules_of(answered).count());
        answer.rules_of(answered).for_each(|(name, rule)| write_rule(replies, name, rule));
    });
}

fn write_rule(replies: &mut Replies, name: &str, rule: &RuleDecision) {
    replies.map(6 + usize::from(rule.shadow));
    field(replies, "name", |replies| replies.bulk(name));
    field(replies, "verdict", |replies| replies.bulk(rule.verdict.name()));
    field(replies, "remaining", |replies| number(replies, Some(rule.remaining)));
    field(replies, "limit", |replies| number(replies, Some(rule.limit)));
    field(replies, "retry_after_us", |replies| retry_after(replies, rule.verdict));
    field(replies, "reset_after_us", |replies| number(replies, Some(rule.reset_after.as_micros())));
    if rule.shadow {
        field(replies, "shadow", |replies| replies.integer(1));
    }
}

fn field(replies: &mut Replies, name: &str, value: impl FnOnce(&mut Replies)) {
    replies.bulk(name);
    value(replies);
}

fn retry_after(replies: &mut Replies, verdict: Verdict) {
    number(replies, verdict.retry_after_span().map(|span| span.as_micros()));
}

fn number(replies: &mut Replies, number: Option<u64>) {
    match number {
        Some(number) => replies.integer(i64::try_from(number).unwrap_or(i64::MAX)),
        None => replies.null(),
    }
}

fn word(replies: &mut Replies, word: Option<&str>) {
    match word {
        Some(word) => replies.bulk(word),
        None => replies.null(),
    }
}
