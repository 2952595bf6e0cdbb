//! Encoding of an engine answer as `RateLimitResponse`: status codes, descriptor statuses, header fields.
//!
//! Each descriptor has a separate status: one within its limit is `OK` even if another one denies the request. The
//! numbers are those of the rule with the longest `retry_after`, or, if all rules allow, of the rule with the fewest
//! permits remaining. A shadow rule is reported only if the descriptor has no enforced rule. In a domain with `match:
//! all`, these are the rules of all policies that count the descriptor.

use ratekeeper_core::{Period, ReadyRule, RuleDecision, Span, Verdict};
use ratekeeper_rules::EnvoyUnit;

use super::wire::{Code, DescriptorStatus, HeaderValue, RateLimit, Unit};
use crate::{
    engine::{Answer, Resolution, SubjectAnswer},
    header_cache::HeaderCache,
    request::RequestedLimit,
};

/// The response code of a verdict.
pub(super) fn code(verdict: Verdict) -> Code {
    match verdict {
        Verdict::Allow { .. } => Code::Ok,
        Verdict::Deny { .. } | Verdict::Never => Code::OverLimit,
    }
}

/// The status of one descriptor: under one policy, or in a domain with `match: all` under several, combined.
pub(super) fn status(answer: &Answer, policies: &[SubjectAnswer]) -> DescriptorStatus {
    // A descriptor with `quota_mode` reports `OVER_LIMIT` even if another quota lets the request pass.
    let is_over = |subject: &SubjectAnswer| {
        (subject.quota_mode && subject.over_limit) || code(subject.verdict) == Code::OverLimit
    };
    let code = if policies.iter().any(is_over) { Code::OverLimit } else { Code::Ok };
    let mut status = DescriptorStatus { code: code.into(), ..Default::default() };
    let reported = policies.iter().filter_map(|subject| Some((subject, reported_rule(answer, subject)?)));
    let (subject, rule) = match (reported.min_by_key(|(_, (_, decision))| rank(decision)), policies.first()) {
        (Some((subject, rule)), _) => (subject, Some(rule)),
        (None, Some(subject)) => (subject, None),
        (None, None) => return status,
    };
    match (subject.resolution, rule) {
        (Resolution::Decided, Some((rule, decision))) => {
            let name = if subject.written.is_some_and(|written| written.unit.name() == rule.name()) {
                "" // The limit is unnamed in its file; the reader derived a name from its unit.
            } else {
                rule.name()
            };
            status.current_limit = Some(subject.written.map_or_else(|| by_rule(rule), |limit| written(limit, name)));
            status.limit_remaining = at_most(decision.remaining);
            let resets = decision.reset_after.max(decision.verdict.retry_after_span().unwrap_or_default());
            status.duration_until_reset = Some(duration(resets));
        }
        (Resolution::RefusedAlways, _) => status.current_limit = subject.written.map(|limit| written(limit, "")),
        (Resolution::Unlimited, _) => status.limit_remaining = u32::MAX,
        _ => {}
    }
    status
}

/// Appends the header fields that the proxy adds to its response.
pub(super) fn headers(answer: &Answer, fields: &HeaderCache, list: &mut Vec<HeaderValue>) {
    let Some(decision) = &answer.decision else { return };
    let put = |name: &'static str, value: &str| {
        list.push(HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() });
    };
    if let Some(fields) = fields.of(answer.policies()) {
        fields.for_each_with(decision, answer.estimated_wait, put);
    }
}

/// The rule whose numbers are reported for the descriptor.
fn reported_rule<'a>(answer: &'a Answer, subject: &'a SubjectAnswer) -> Option<(&'a ReadyRule, &'a RuleDecision)> {
    let decisions = answer.decision.as_ref()?.rules.get(subject.rules.clone())?;
    let rules = subject.policy.as_ref()?.rules().iter().zip(decisions);
    rules.min_by_key(|(_, decision)| rank(decision))
}

/// The order of rules, the one to report first.
fn rank(decision: &RuleDecision) -> (bool, std::cmp::Reverse<Span>, u64) {
    let delay = match decision.verdict {
        Verdict::Never => Span::from_micros(u64::MAX),
        Verdict::Deny { retry_after } => retry_after,
        Verdict::Allow { .. } => Span::ZERO,
    };
    (decision.shadow, std::cmp::Reverse(delay), decision.remaining)
}

/// A limit in the form of its rule file or of the request.
fn written(limit: RequestedLimit, name: &str) -> RateLimit {
    RateLimit {
        requests_per_unit: at_most(limit.requests_per_unit),
        unit: unit(limit.unit).into(),
        name: name.to_owned(),
    }
}

/// A rule in native format as a limit. The unit is `UNKNOWN` if the period is none of Envoy's units.
fn by_rule(rule: &ReadyRule) -> RateLimit {
    let quota = rule.rule().quota();
    let unit = match quota.period() {
        Period::Span(span) => UNITS.iter().find(|unit| unit.span() == span).map_or(Unit::Unknown, |one| unit(*one)),
        Period::Month => Unit::Month,
        Period::Year => Unit::Year,
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

/// Saturates at `u32::MAX`, the largest count of the protocol.
fn at_most(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A protobuf duration, exact to the microsecond.
fn duration(span: Span) -> prost_types::Duration {
    let seconds = i64::try_from(span.as_micros() / 1_000_000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(span.as_micros() % 1_000_000 * 1_000).unwrap_or(0);
    prost_types::Duration { seconds, nanos }
}
