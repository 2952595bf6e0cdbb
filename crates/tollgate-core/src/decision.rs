//! The answer. Every wire renders a [`Decision`]; none of them recomputes it.

use crate::{algorithm::LeaseId, bounds::MAX_TIME, rules_told::RulesTold, time::Micros};

/// May these permits go, and what should the caller know next?
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a decision that nobody reads holds nobody back"]
pub struct Decision {
    /// Allow, deny or never.
    pub verdict: Verdict,
    /// Who had the last word.
    pub decided_by: DecidedBy,
    /// Where the answer comes from.
    pub source: Source,
    /// The store's time when it was made. What was told to wait goes at this time plus the wait.
    pub decided_at: Micros,
    /// The lease taken, renewed or released, where one was.
    pub lease: Option<LeaseId>,
    /// One answer per rule, in the policy's order.
    pub rules: RulesTold,
}

/// What one rule says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleDecision {
    /// What this rule alone would have answered.
    pub verdict: Verdict,
    /// The most permits this rule lets through at one instant.
    pub limit: u64,
    /// Permits that would still pass if asked for right now.
    pub remaining: u64,
    /// How long until the key is as good as new.
    pub reset_after: Micros,
    /// The rule only watches.
    pub shadow: bool,
}

/// Allow, deny, or never.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Go, after holding still for `wait` (0 unless the request reserved or is shaped).
    Allow {
        /// How long to hold still first.
        wait: Micros,
    },
    /// The same request passes after this wait, unless others come first.
    Deny {
        /// How long that is.
        retry_after: Micros,
    },
    /// The request outweighs the limit itself; waiting cannot help.
    Never,
}

/// Who had the last word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecidedBy {
    /// The rule at this position: the one that holds the request up longest, or, when it passes, the one with the
    /// least remaining.
    Rule(usize),
    /// The key is blocked.
    Block,
    /// No rule takes part.
    Nothing,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store itself.
    #[default]
    Store,
    /// The store itself, one key after another: they live in different places and could not be decided in one step. What
    /// was charged was given back if a later one refused.
    InTurn,
    /// The store had no room for the key, so it was counted together with others in the same plight.
    Overflow,
    /// A prepaid share of the store's permits.
    Lease,
    /// The limiter in this process, because the store could not answer.
    Local,
    /// Nothing: the store could not answer and the rule says to let pass.
    Open,
    /// Nothing: the store could not answer and the rule says to refuse.
    Closed,
}

impl Source {
    /// The word for it on wires and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::InTurn => "in_turn",
            Self::Overflow => "overflow",
            Self::Lease => "lease",
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl Decision {
    /// The decision of a policy with one rule.
    #[inline]
    pub fn of_one(rule: RuleDecision, now: Micros) -> Self {
        Self {
            verdict: rule.verdict,
            decided_by: DecidedBy::Rule(0),
            source: Source::Store,
            decided_at: now.min(MAX_TIME),
            lease: None,
            rules: RulesTold::one(rule),
        }
    }

    /// May the request go, now or after its wait?
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow { .. })
    }

    /// How long an admitted request must hold still; 0 for any other.
    pub fn wait(&self) -> Micros {
        match self.verdict {
            Verdict::Allow { wait } => wait,
            _ => Micros::ZERO,
        }
    }

    /// When to come back: 0 if allowed, `None` if waiting cannot help.
    pub fn retry_after(&self) -> Option<Micros> {
        self.verdict.retry_after()
    }

    /// The most permits at one instant, under the rule that decided.
    pub fn limit(&self) -> u64 {
        self.telling_rule().map_or(0, |rule| rule.limit)
    }

    /// Permits that would still pass right now.
    pub fn remaining(&self) -> u64 {
        match self.decided_by {
            DecidedBy::Block => 0,
            _ => self.telling_rule().map_or(0, |rule| rule.remaining),
        }
    }

    /// How long until the key is as good as new, under the rule that decided.
    pub fn reset_after(&self) -> Micros {
        let rests = self.telling_rule().map_or(Micros::ZERO, |rule| rule.reset_after);
        match (self.decided_by, self.verdict) {
            (DecidedBy::Block, Verdict::Deny { retry_after }) => rests.max(retry_after),
            _ => rests,
        }
    }

    /// The rule whose numbers stand for the whole.
    fn telling_rule(&self) -> Option<&RuleDecision> {
        match self.decided_by {
            DecidedBy::Rule(index) => self.rules.get(index),
            DecidedBy::Block => self.rules.iter().min_by_key(|rule| rule.remaining),
            DecidedBy::Nothing => None,
        }
    }
}

impl RuleDecision {
    /// Would this rule alone let the request go, now or after its wait?
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow { .. })
    }
}

impl Verdict {
    /// The word for it on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Deny { .. } => "deny",
            Self::Never => "never",
        }
    }

    /// When to come back: 0 if allowed, `None` if waiting cannot help.
    pub fn retry_after(self) -> Option<Micros> {
        match self {
            Self::Allow { .. } => Some(Micros::ZERO),
            Self::Deny { retry_after } => Some(retry_after),
            Self::Never => None,
        }
    }
}
