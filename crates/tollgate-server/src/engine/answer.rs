//! What is answered, ready for any wire to say in its own words.

use std::{ops::Range, sync::Arc};

use serde_json::{Map, Value};
use tollgate_core::{DecidedBy, Decision, Micros, Policy, RuleDecision, StoreError, Verdict};

use super::RequestedLimit;
use crate::telemetry::Told;

/// The answer to a question.
#[derive(Clone, Debug)]
#[must_use = "an answer that nobody reads holds nobody back"]
pub struct Answer {
    /// The common decision. Nothing: nobody limits this (an unknown domain, no policy that matches, a kill switch), so
    /// it is allowed.
    pub decision: Option<Decision>,
    /// One for each subject, in order.
    pub subjects: Vec<SubjectAnswer>,
}

/// What became of one subject.
#[derive(Clone, Debug)]
pub struct SubjectAnswer {
    /// How it was met.
    pub fate: Fate,
    /// The policy it fell under, and its rules' names.
    pub policy: Option<Arc<Policy>>,
    /// The entry of a rule file that refuses all of its kind, if it fell under one.
    pub ban: Option<Arc<Ban>>,
    /// Which of the decision's rules are this subject's, in the policy's order.
    pub rules: Range<usize>,
    /// What its own enforcing rules say, whatever the others do.
    pub verdict: Verdict,
    /// Whether any of its rules, shadows included, would refuse it.
    pub over_limit: bool,
    /// Over the limit it passes, unless all quotas of the request are; the status says so (`quota_mode` of a descriptor).
    pub quota_mode: bool,
    /// What its limit's entry in the rule file sends back with answers within the limit.
    pub metadata: Option<Arc<Map<String, Value>>>,
    /// The limit in the words of the rule file or of the request, where it was written as so many per unit.
    pub written: Option<RequestedLimit>,
    /// What it was charged, or would have been.
    pub cost: u64,
    /// The key it is counted under; empty where nobody counts, or everybody is counted together.
    pub key: Box<str>,
}

/// An entry of a rule file that lets nothing through, by the names that metrics know it by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ban {
    /// As its policy would be called, if it were one.
    pub policy: String,
    /// As the rule of that would be.
    pub rule: String,
}

/// How a subject was met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// A policy decided.
    Decided,
    /// The rule file says to refuse all of its kind.
    RefusedAlways,
    /// The rule file says not to limit it.
    Unlimited,
    /// A limit of another subject stands in for its own.
    Replaced,
    /// No policy of the domain matches.
    Unmatched,
    /// No rule file is about the domain.
    UnknownDomain,
    /// Somebody has switched everything off.
    SwitchedOff,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The question makes no sense; the sentence says why, and what would do.
    #[error("{0}")]
    Bad(String),
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AskError {
    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self::Bad(what.into())
    }

    /// Whether the caller is to blame, and asking again would bring the same answer.
    pub fn is_callers_fault(&self) -> bool {
        match self {
            Self::Bad(_) => true,
            Self::Store(error) => matches!(
                error,
                StoreError::KeyTooLong { .. } | StoreError::SameKeyTwice { .. } | StoreError::OneKeyOnly { .. }
            ),
        }
    }
}

impl Answer {
    /// May it go, now or after its wait?
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict(), Verdict::Allow { .. })
    }

    /// Allow, deny or never.
    pub fn verdict(&self) -> Verdict {
        self.decision.as_ref().map_or(Verdict::Allow { wait: Micros::ZERO }, |decision| decision.verdict)
    }

    /// Where the answer comes from: the store or what stood in for it, or why nobody had to be asked.
    pub fn source(&self) -> &'static str {
        let fate = self.subjects.first().map_or(Fate::Unmatched, |subject| subject.fate);
        match &self.decision {
            Some(decision) if fate != Fate::RefusedAlways => decision.source.name(),
            _ => fate.name(),
        }
    }

    /// One subject's rules: each one's name and what it says.
    pub fn rules_of<'a>(&'a self, subject: &'a SubjectAnswer) -> impl Iterator<Item = (&'a str, &'a RuleDecision)> {
        let told = self.decision.as_ref().and_then(|decision| decision.rules.get(subject.rules.clone()));
        let names = subject.policy.iter().flat_map(|policy| policy.rules()).map(|rule| rule.name());
        names.zip(told.unwrap_or_default())
    }

    /// What a trace says of it. A domain that no rule file is about is the caller's word alone, and is kept out.
    pub(super) fn told<'a>(&'a self, domain: &'a str) -> Told<'a> {
        let decision = self.decision.as_ref();
        let speaker = match decision.map(|decision| decision.decided_by) {
            Some(DecidedBy::Rule(at)) => self.subjects.iter().find(|subject| subject.rules.contains(&at)),
            _ => self.subjects.first(),
        };
        let fate = speaker.map_or(Fate::Unmatched, |subject| subject.fate);
        let known = !matches!(fate, Fate::UnknownDomain | Fate::SwitchedOff);
        Told {
            domain: known.then_some(domain),
            policy: speaker.and_then(SubjectAnswer::policy_name),
            rule: decision.and_then(|decision| match decision.decided_by {
                DecidedBy::Rule(at) => self.rule_name(at),
                _ => None,
            }),
            verdict: self.verdict(),
            source: decision.map_or(fate.name(), |decision| decision.source.name()),
            cost: self.subjects.iter().fold(0, |sum, subject| sum.saturating_add(subject.cost)),
            subjects: self.subjects.len(),
        }
    }

    /// The name of the rule at a position of the decision's list.
    pub fn rule_name(&self, position: usize) -> Option<&str> {
        let subject = self.subjects.iter().find(|subject| subject.rules.contains(&position))?;
        let rule = subject.policy.as_ref()?.rules().get(position - subject.rules.start)?;
        Some(rule.name())
    }
}

impl SubjectAnswer {
    /// Of a subject that no policy decides about.
    pub(super) fn of(fate: Fate, cost: u64) -> Self {
        Self {
            fate,
            policy: None,
            ban: None,
            rules: 0..0,
            verdict: Verdict::Allow { wait: Micros::ZERO },
            over_limit: false,
            quota_mode: false,
            metadata: None,
            written: None,
            cost,
            key: Box::default(),
        }
    }

    /// The policy it fell under, by name.
    pub fn policy_name(&self) -> Option<&str> {
        let policy = self.policy.as_ref().map(|policy| policy.name());
        policy.or_else(|| self.ban.as_ref().map(|ban| ban.policy.as_str()))
    }

    /// Whether it passes although it is over its limit.
    pub fn is_watched(&self) -> bool {
        self.over_limit && matches!(self.verdict, Verdict::Allow { .. })
    }
}
