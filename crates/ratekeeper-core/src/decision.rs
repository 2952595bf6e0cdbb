//! Decisions: the result of a request. Every wire renders a [`Decision`]; none of them recomputes it.

use std::{fmt, time::Duration};

use crate::{
    algorithm::LeaseId,
    bounds::MAX_TIME,
    rule_decisions::{RuleDecision, RuleDecisions, RuleRole},
    time::{Span, Timestamp},
    verdict::{RetryAfter, Verdict},
};

/// The result of a request: the verdict, and the numbers of every rule.
///
/// Fields are exact, in microseconds; the methods return [`Duration`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a decision that is not read limits nothing"]
#[non_exhaustive]
pub struct Decision {
    /// Allow, deny or never.
    pub verdict: Verdict,
    /// The rule or block that determined the verdict.
    pub decided_by: DecidedBy,
    /// Which part decided.
    pub source: Source,
    /// The store's time of the decision. An admitted request goes at this time plus its wait.
    pub decided_at: Timestamp,
    /// The lease that was taken, renewed or released, if any.
    pub lease: Option<LeaseId>,
    /// Permits charged, if they may differ from the cost: by a request that accepts less, and for an id after a commit or a
    /// cancel.
    pub granted: Option<u64>,
    /// One decision per rule, in the policy's order.
    pub rules: RuleDecisions,
}

/// What determined a verdict. Exhaustive on purpose: wires name each case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecidedBy {
    /// The rule at this position: the one with the longest `retry_after`, or, for an admitted request, the one with the
    /// least remaining.
    Rule(usize),
    /// The key is blocked.
    Block,
    /// No rule is enabled.
    Nothing,
}

/// Which part made a decision.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store itself.
    #[default]
    Store,
    /// The store itself, one key after another, because the keys are on different nodes. What was charged was returned
    /// if a later key was denied.
    InTurn,
    /// The store had no room for the key: it was counted together with others, or not at all.
    Overflow,
    /// This process, by permits that the store has granted to it in advance.
    Allotment,
    /// This process: the store has denied the same request, and that cannot have changed yet.
    CachedDenial,
    /// The record of a request: its id was charged before. This is the decision of that time, and nothing was charged now.
    Repeated,
    /// The fallback in this process, because the store could not decide.
    Local,
    /// None: the store could not decide and the rule says to admit.
    Open,
    /// None: the store could not decide and the rule says to deny.
    Closed,
}

impl Source {
    /// The word for it on wires and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::InTurn => "in_turn",
            Self::Overflow => "overflow",
            Self::Allotment => "allotment",
            Self::CachedDenial => "cached_denial",
            Self::Repeated => "repeated",
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl Decision {
    /// A decision of the store without a lease.
    #[inline]
    pub fn new(verdict: Verdict, decided_by: DecidedBy, rules: RuleDecisions, decided_at: Timestamp) -> Self {
        Self { verdict, decided_by, source: Source::Store, decided_at, lease: None, granted: None, rules }
    }

    /// The decision of a policy with one rule.
    #[inline]
    pub fn of_one(rule: RuleDecision, now: Timestamp) -> Self {
        Self::new(rule.verdict, DecidedBy::Rule(0), RuleDecisions::one(rule), now.min(MAX_TIME))
    }

    /// The same decision with another verdict.
    pub fn with_verdict(mut self, verdict: Verdict, decided_by: DecidedBy) -> Self {
        (self.verdict, self.decided_by) = (verdict, decided_by);
        self
    }

    /// The same decision, made by another part.
    pub fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same decision with this lease.
    pub fn with_lease(mut self, lease: Option<LeaseId>) -> Self {
        self.lease = lease;
        self
    }

    /// The same decision with this number of permits charged.
    pub fn with_granted(mut self, granted: Option<u64>) -> Self {
        self.granted = granted;
        self
    }

    /// Whether the request may go, now or after its wait.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow { .. })
    }

    /// The wait of an allowed request; zero for any other.
    pub fn wait(&self) -> Duration {
        self.verdict.wait().into()
    }

    /// When an allowed request may proceed: the time of the decision plus the wait.
    pub fn proceed_at(&self) -> Timestamp {
        self.decided_at + self.verdict.wait()
    }

    /// When the same request would pass.
    pub fn retry_after(&self) -> RetryAfter {
        self.verdict.retry_after()
    }

    /// The limit of the rule that decided.
    pub fn limit(&self) -> u64 {
        self.deciding_rule().map_or(0, |rule| rule.limit)
    }

    /// Permits that would still pass right now.
    pub fn remaining(&self) -> u64 {
        match self.decided_by {
            DecidedBy::Block => 0,
            _ => self.deciding_rule().map_or(0, |rule| rule.remaining),
        }
    }

    /// Time until the key is back to its initial state, under the rule that decided.
    pub fn reset_after(&self) -> Duration {
        self.reset_after_span().into()
    }

    /// [`reset_after`](Self::reset_after) in exact microseconds, for wires.
    pub fn reset_after_span(&self) -> Span {
        let reset_after = self.deciding_rule().map_or(Span::ZERO, |rule| rule.reset_after);
        match (self.decided_by, self.verdict) {
            (DecidedBy::Block, Verdict::Deny { retry_after }) => reset_after.max(retry_after),
            _ => reset_after,
        }
    }

    /// The rule whose numbers represent the decision.
    fn deciding_rule(&self) -> Option<&RuleDecision> {
        match self.decided_by {
            DecidedBy::Rule(index) => self.rules.get(index),
            DecidedBy::Block => {
                let limits = self.rules.iter().filter(|rule| rule.role == RuleRole::Limit);
                limits.min_by_key(|rule| rule.remaining)
            }
            DecidedBy::Nothing => None,
        }
    }
}

/// The verdict, the numbers of the rule that decided, and the source unless it is the store.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} of {} remaining", self.verdict, self.remaining(), self.limit())?;
        match self.source {
            Source::Store => Ok(()),
            other => write!(f, " ({})", other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_of_decisions() {
        let decision = |verdict| {
            let rule = RuleDecision::new(verdict, 10, 4, Span::SECOND);
            Decision::of_one(rule, Timestamp::EPOCH)
        };
        let text = |verdict| decision(verdict).to_string();
        assert_eq!(text(Verdict::Allow { wait: Span::ZERO }), "allowed; 4 of 10 remaining");
        assert_eq!(text(Verdict::Allow { wait: Span::from_millis(20) }), "allowed after 20ms; 4 of 10 remaining");
        assert_eq!(text(Verdict::Deny { retry_after: Span::MINUTE }), "denied, retry after 1m; 4 of 10 remaining");
        let never = Decision { source: Source::Local, ..decision(Verdict::Never) };
        assert_eq!(never.to_string(), "never allowed; 4 of 10 remaining (local)");
    }
}
