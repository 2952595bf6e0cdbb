//! Answers of the engine: the combined decision on a request, and the resolution of each subject.
//!
//! Wires encode them.

use std::{ops::Range, sync::Arc};

use ratekeeper_core::{DecidedBy, Decision, Policy, RuleDecision, Span, Verdict};
use serde_json::{Map, Value};

use crate::{request::RequestedLimit, rulebook::Ban, telemetry::DecisionAttributes};

/// The answer to a request.
#[derive(Clone, Debug)]
#[must_use = "a denial takes effect only if the caller reads it"]
pub struct Answer {
    /// The combined decision. `None` if no rule limits the request (unknown domain, no matching policy, kill switch);
    /// the request is then allowed.
    pub decision: Option<Decision>,
    /// The estimated wait of a request that a concurrency rule denies, by the hold times of leases that this process has
    /// granted. At most the certain `retry_after`. `None` for other answers, and before the first release.
    pub estimated_wait: Option<Span>,
    /// The answers of the subjects, in the order of the request. A subject of a domain with `match: all` has one for each
    /// policy that counts it.
    pub subjects: Vec<SubjectAnswer>,
}

/// The answer for one subject, under one policy.
#[derive(Clone, Debug)]
pub struct SubjectAnswer {
    /// The position of the subject in the request.
    pub subject: usize,
    /// How the subject was resolved.
    pub resolution: Resolution,
    /// The policy that matches; it has the names of the rules.
    pub policy: Option<Arc<Policy>>,
    /// The ban that matches, if any.
    pub ban: Option<Arc<Ban>>,
    /// The positions of the policy's rules in the decision, in the policy's order.
    pub rules: Range<usize>,
    /// The verdict of this subject's enforced rules alone.
    pub verdict: Verdict,
    /// Whether any rule of the subject denies it, including rules in shadow mode.
    pub over_limit: bool,
    /// Whether the limit is in quota mode (`quota_mode` of a descriptor): it refuses a request only if all limits in
    /// quota mode of the request are exceeded.
    pub quota_mode: bool,
    /// Metadata of the descriptor in the rule file, for answers within the limit.
    pub metadata: Option<Arc<Map<String, Value>>>,
    /// The limit as the rule file or the request gives it, if it is a number per unit.
    pub written: Option<RequestedLimit>,
    /// Permits requested.
    pub cost: u64,
    /// The key the subject is counted under. Empty if it is not counted, or if all requests of the policy share one
    /// count.
    pub key: Box<str>,
}

/// How a subject was resolved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resolution {
    /// A policy decided.
    Decided,
    /// A ban applies: a limit of 0 in the rule file or in the request.
    RefusedAlways,
    /// The rule file exempts the subject (`unlimited`).
    Unlimited,
    /// The limit of another subject replaces that of this one.
    Replaced,
    /// No policy of the domain matches.
    Unmatched,
    /// No rule file has the domain.
    UnknownDomain,
    /// Switches disable the limit: the kill switch, or those of all rules of the policy, or shadow mode of everything
    /// for an inline limit.
    SwitchedOff,
}

impl Resolution {
    /// Resolutions of subjects that no rule limits.
    pub(crate) const WITHOUT_LIMIT: [Self; 5] =
        [Self::Unlimited, Self::Replaced, Self::Unmatched, Self::UnknownDomain, Self::SwitchedOff];

    /// The name in metrics and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::RefusedAlways => "refused_always",
            Self::Unlimited => "unlimited",
            Self::Replaced => "replaced",
            Self::Unmatched => "no_policy",
            Self::UnknownDomain => "unknown_domain",
            Self::SwitchedOff => "switched_off",
        }
    }
}

impl Answer {
    /// Whether the request may proceed, now or after its wait.
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict(), Verdict::Allow { .. })
    }

    /// The combined verdict; allow if no rule limits the request.
    pub fn verdict(&self) -> Verdict {
        self.decision.as_ref().map_or(Verdict::Allow { wait: Span::ZERO }, |decision| decision.verdict)
    }

    /// The name of the decision's source. If there is no decision, or a ban applies, the name of the resolution.
    pub fn source(&self) -> &'static str {
        let resolution = self.subjects.first().map_or(Resolution::Unmatched, |subject| subject.resolution);
        let is_banned = |subject: &SubjectAnswer| {
            subject.resolution == Resolution::RefusedAlways && subject.verdict == Verdict::Never
        };
        match &self.decision {
            _ if self.subjects.iter().any(is_banned) => Resolution::RefusedAlways.name(),
            Some(decision) if resolution != Resolution::RefusedAlways => decision.source.name(),
            _ => resolution.name(),
        }
    }

    /// The answer that determined the decision: that of the rule that decided, of a ban, or else the first.
    pub fn deciding(&self) -> Option<&SubjectAnswer> {
        let found = match self.decision.as_ref().map(|decision| decision.decided_by) {
            Some(DecidedBy::Rule(at)) => self.subjects.iter().find(|subject| subject.rules.contains(&at)),
            Some(DecidedBy::Nothing) => self.subjects.iter().find(|subject| subject.verdict == Verdict::Never),
            _ => None,
        };
        found.or_else(|| self.subjects.first())
    }

    /// The policies whose rules the decision has, in its order. Subjects that share a key share its rules, which the
    /// decision has once.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        let mut next = 0;
        self.subjects.iter().filter_map(move |subject| {
            let policy =
                subject.policy.as_ref().filter(|_| subject.rules.start == next && !subject.rules.is_empty())?;
            next = subject.rules.end;
            Some(policy)
        })
    }

    /// Names and decisions of one subject's rules.
    pub fn rules_of<'a>(&'a self, subject: &'a SubjectAnswer) -> impl Iterator<Item = (&'a str, &'a RuleDecision)> {
        let decisions = self.decision.as_ref().and_then(|decision| decision.rules.get(subject.rules.clone()));
        let names = subject.policy.iter().flat_map(|policy| policy.rules()).map(|rule| rule.name());
        names.zip(decisions.unwrap_or_default())
    }

    /// The trace attributes of a request. An unknown domain is omitted, because it is arbitrary text of the client.
    pub(super) fn span_attributes<'a>(&'a self, domain: &'a str) -> DecisionAttributes<'a> {
        let decision = self.decision.as_ref();
        let deciding = self.deciding();
        let resolution = deciding.map_or(Resolution::Unmatched, |subject| subject.resolution);
        let known = !matches!(resolution, Resolution::UnknownDomain | Resolution::SwitchedOff);
        DecisionAttributes {
            domain: known.then_some(domain),
            policy: deciding.and_then(SubjectAnswer::policy_name),
            rule: decision.and_then(|decision| match decision.decided_by {
                DecidedBy::Rule(at) => self.rule_name(at),
                _ => None,
            }),
            verdict: self.verdict(),
            source: decision.map_or(resolution.name(), |decision| decision.source.name()),
            cost: self.subjects.iter().fold(0, |sum, subject| sum.saturating_add(subject.cost)),
            subjects: self.subjects.last().map_or(0, |last| last.subject + 1),
        }
    }

    /// The name of the rule at a position in the decision.
    pub fn rule_name(&self, position: usize) -> Option<&str> {
        let subject = self.subjects.iter().find(|subject| subject.rules.contains(&position))?;
        let rule = subject.policy.as_ref()?.rules().get(position - subject.rules.start)?;
        Some(rule.name())
    }
}

impl SubjectAnswer {
    /// An answer that allows the subject, without policy or rules.
    pub(super) fn of(resolution: Resolution, cost: u64) -> Self {
        Self {
            subject: 0,
            resolution,
            policy: None,
            ban: None,
            rules: 0..0,
            verdict: Verdict::Allow { wait: Span::ZERO },
            over_limit: false,
            quota_mode: false,
            metadata: None,
            written: None,
            cost,
            key: Box::default(),
        }
    }

    /// The name of the policy or ban that matches.
    pub fn policy_name(&self) -> Option<&str> {
        let policy = self.policy.as_ref().map(|policy| policy.name());
        policy.or_else(|| self.ban.as_ref().map(|ban| ban.policy.as_str()))
    }

    /// Whether the subject is over its limit and allowed, because that limit is in shadow mode.
    pub fn is_shadowed(&self) -> bool {
        self.over_limit && matches!(self.verdict, Verdict::Allow { .. })
    }
}
