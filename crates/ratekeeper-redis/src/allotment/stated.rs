//! What the store has stated of a key's rules, and the decisions made from it without the store.

use ratekeeper_core::{
    DecidedBy, Decision, RuleDecision, RuleDecisions, Source, Span, Timestamp, Verdict, store_api::least_remaining,
};
use smallvec::SmallVec;

use super::{Denial, LocalTime};

/// The rules of a key, as the store has stated them last.
#[derive(Debug, Default)]
pub(crate) struct StatedRules(SmallVec<[StatedRule; 1]>);

/// A rule of a key, as the store has stated it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatedRule {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_at: LocalTime,
    shadow: bool,
}

impl StatedRules {
    /// Notes what the store has stated.
    pub(crate) fn note(&mut self, status: &Decision, now: LocalTime) {
        self.0.clear();
        self.0.extend(status.rules.iter().map(|rule| StatedRule {
            limit: rule.limit,
            remaining: rule.remaining,
            reset_at: now + rule.reset_after,
            shadow: rule.shadow,
        }));
    }

    /// The only rule, if it is enforced.
    pub(crate) fn single(&self) -> Option<&StatedRule> {
        match self.0.as_slice() {
            [one] if !one.shadow => Some(one),
            _ => None,
        }
    }

    /// An admission with numbers as of the last reply of the store. Permits held here remain as well.
    pub(crate) fn allowed(&self, held: u64, now: LocalTime, decided_at: Timestamp) -> Decision {
        let (rules, decided_by) = match self.0.as_slice() {
            [one] => (RuleDecisions::one(one.decision(held, now)), DecidedBy::Rule(0)),
            many => {
                let rules = RuleDecisions::collect(many.iter().map(|rule| rule.decision(held, now)));
                let least = least_remaining(&rules);
                (rules, least)
            }
        };
        let verdict = Verdict::Allow { wait: Span::ZERO };
        Decision::new(verdict, decided_by, rules, decided_at).with_source(Source::Allotment)
    }

    /// The rule with the least remaining denies: fewer permits than the cost of the denial remain.
    pub(crate) fn denied(&self, denial: &Denial, held: u64, now: LocalTime, decided_at: Timestamp) -> Decision {
        let verdict = Verdict::Deny { retry_after: denial.free_at.since(now).max(Span::MICROSECOND) };
        let enforced = self.0.iter().enumerate().filter(|(_, rule)| !rule.shadow);
        let denies = enforced.min_by_key(|(_, rule)| rule.remaining).map_or(0, |(index, _)| index);
        let rules = self.0.iter().enumerate().map(|(index, rule)| match rule.decision(held, now) {
            allowed if index == denies => {
                let remaining = allowed.remaining.min(denial.cost - 1);
                RuleDecision::new(verdict, allowed.limit, remaining, allowed.reset_after)
            }
            allowed => allowed,
        });
        let rules = RuleDecisions::collect(rules);
        Decision::new(verdict, DecidedBy::Rule(denies), rules, decided_at).with_source(Source::CachedDenial)
    }
}

impl StatedRule {
    fn decision(&self, held: u64, now: LocalTime) -> RuleDecision {
        let remaining = if self.shadow { self.remaining } else { self.remaining + held };
        let verdict = Verdict::Allow { wait: Span::ZERO };
        RuleDecision::new(verdict, self.limit, remaining.min(self.limit), self.reset_at.since(now))
            .with_shadow(self.shadow)
    }
}
