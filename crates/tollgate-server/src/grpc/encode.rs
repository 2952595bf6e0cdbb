//! From an answer to a response on the wire.
//!
//! Each descriptor gets a status of its own: one that is within its limit says so even where another one has stopped the
//! request. The numbers are those of the rule that holds the descriptor up longest, or, when none does, of the one with
//! the least remaining. Rules that only watch speak where no other does.

use tollgate_core::{Micros, Period, ReadyRule, RuleDecision, Verdict};
use tollgate_rules::EnvoyUnit;

use super::wire::{Code, DescriptorStatus, HeaderValue, RateLimit, Unit};
use crate::{
    engine::{Answer, Fate, RequestedLimit, SubjectAnswer},
    fields::Fields,
};

/// Stop, or go on?
pub(super) fn code(verdict: Verdict) -> Code {
    match verdict {
        Verdict::Allow { .. } => Code::Ok,
        Verdict::Deny { .. } | Verdict::Never => Code::OverLimit,
    }
}

/// What became of one descriptor.
pub(super) fn status(answer: &Answer, subject: &SubjectAnswer) -> DescriptorStatus {
    // A quota says that it is over, also where another one lets the request pass.
    let code = if subject.quota_mode && subject.over_limit { Code::OverLimit } else { code(subject.verdict) };
    let mut status = DescriptorStatus { code: code.into(), ..Default::default() };
    match (subject.fate, telling(answer, subject)) {
        (Fate::Decided, Some((rule, told))) => {
            let name = if subject.written.is_some_and(|written| written.unit.name() == rule.name()) {
                "" // The limit has no name of its own; readers of its file made one of its unit.
            } else {
                rule.name()
            };
            status.current_limit = Some(subject.written.map_or_else(|| by_rule(rule), |limit| written(limit, name)));
            status.limit_remaining = at_most(told.remaining);
            let resets = told.reset_after.max(told.verdict.retry_after().unwrap_or_default());
            status.duration_until_reset = Some(duration(resets));
        }
        (Fate::RefusedAlways, _) => status.current_limit = subject.written.map(|limit| written(limit, "")),
        (Fate::Unlimited, _) => status.limit_remaining = u32::MAX,
        _ => {}
    }
    status
}

/// The header fields for the proxy's client.
pub(super) fn headers(answer: &Answer, fields: &Fields, told: &mut Vec<HeaderValue>) {
    let Some(decision) = &answer.decision else { return };
    let put = |name: &'static str, value: &str| {
        told.push(HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() });
    };
    // Descriptors that share a key share its rules; the decision names those once.
    let mut next = 0;
    let policies = answer.subjects.iter().filter_map(|subject| {
        let policy = subject.policy.as_ref().filter(|_| subject.rules.start == next && !subject.rules.is_empty())?;
        next = subject.rules.end;
        Some(policy)
    });
    if let Some(fields) = fields.of(policies) {
        fields.for_each(decision, put);
    }
}

/// The rule whose numbers stand for the descriptor.
fn telling<'a>(answer: &'a Answer, subject: &'a SubjectAnswer) -> Option<(&'a ReadyRule, &'a RuleDecision)> {
    let told = answer.decision.as_ref()?.rules.get(subject.rules.clone())?;
    let rules = subject.policy.as_ref()?.rules().iter().zip(told);
    rules.min_by_key(|(_, told)| {
        let holds_up = match told.verdict {
            Verdict::Never => Micros(u64::MAX),
            Verdict::Deny { retry_after } => retry_after,
            Verdict::Allow { .. } => Micros::ZERO,
        };
        (told.shadow, std::cmp::Reverse(holds_up), told.remaining)
    })
}

/// A limit as its file, or the request, says it.
fn written(limit: RequestedLimit, name: &str) -> RateLimit {
    RateLimit {
        requests_per_unit: at_most(limit.requests_per_unit),
        unit: unit(limit.unit).into(),
        name: name.to_owned(),
    }
}

/// A rule of tollgate's own as a limit. Where its period is none of the units the number stands alone.
fn by_rule(rule: &ReadyRule) -> RateLimit {
    let quota = rule.rule().quota();
    let unit = match quota.period() {
        Period::Span(span) => UNITS.iter().find(|unit| unit.span() == span).map_or(Unit::Unknown, |one| unit(*one)),
        Period::Month => Unit::Month,
    };
    RateLimit { requests_per_unit: at_most(quota.limit()), unit: unit.into(), name: rule.name().to_owned() }
}

fn unit(unit: EnvoyUnit) -> Unit {
    match unit {
        EnvoyUnit::Second => Unit::Second,
        EnvoyUnit::Minute => Unit::Minute,
        EnvoyUnit::Hour => Unit::Hour,
        EnvoyUnit::Day => Unit::Day,
        EnvoyUnit::Week => Unit::Week,
        EnvoyUnit::Month => Unit::Month,
        EnvoyUnit::Year => Unit::Year,
    }
}

const UNITS: [EnvoyUnit; 7] = [
    EnvoyUnit::Second,
    EnvoyUnit::Minute,
    EnvoyUnit::Hour,
    EnvoyUnit::Day,
    EnvoyUnit::Week,
    EnvoyUnit::Month,
    EnvoyUnit::Year,
];

/// The wire counts to four thousand million; whatever has more left than that has plenty.
fn at_most(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// To the microsecond, as it is known here.
fn duration(span: Micros) -> prost_types::Duration {
    let seconds = i64::try_from(span.get() / 1_000_000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(span.get() % 1_000_000 * 1_000).unwrap_or(0);
    prost_types::Duration { seconds, nanos }
}
