//! Combination of the results that the rules of a take have: one verdict, and the decision of each rule.
//!
//! Rules are [added](Evaluation::add) one by one, of all keys in order. The same code builds the decisions of takes that
//! are evaluated here and of those that a script has carried out.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{
    algorithm::{Algorithm, Look, Weighed},
    combine::{least_remaining, strictest_denial},
    decision::DecidedBy,
    policy::ReadyRule,
    rule_decisions::{RuleDecision, RuleDecisions, RuleRole},
    time::{Span, Timestamp},
    verb::Take,
    verdict::Verdict,
};

/// The results of all rules, combined into one decision.
pub(crate) struct Evaluation {
    /// Each rule's result; `None` if the cost exceeds its limit.
    pub(crate) weighed: SmallVec<[Option<Weighed>; INLINE]>,
    /// The same after a refused take was counted; empty if no rule counts them.
    after: SmallVec<[Option<Weighed>; INLINE]>,
    /// The longest retry_after of the enforcing rules after that.
    retry_after_counted: Span,
    /// The first time at which all enforcing rules admit it.
    free_at: Timestamp,
    /// The time it goes.
    pub(crate) go_at: Timestamp,
    never: bool,
    /// Whether a policy refuses every request.
    denied: bool,
    blocked_until: Timestamp,
    horizon: Span,
}

impl Evaluation {
    #[inline]
    pub(crate) fn start(now: Timestamp) -> Self {
        Self {
            weighed: SmallVec::new(),
            after: SmallVec::new(),
            retry_after_counted: Span::ZERO,
            free_at: now,
            go_at: now,
            never: false,
            denied: false,
            blocked_until: Timestamp::EPOCH,
            horizon: Span::MAX,
        }
    }

    #[inline]
    pub(crate) fn refuses(&self, take: &Take, now: Timestamp) -> bool {
        let beyond = |moment: Timestamp, span: Span| moment.since(now) > span;
        self.never
            || self.blocked_until > now
            || beyond(self.free_at, take.max_wait)
            || (take.whole_wait && beyond(self.go_at, take.max_wait))
            || beyond(self.go_at, self.horizon)
    }

    /// Adds one rule's result.
    #[inline]
    pub(crate) fn add(&mut self, rule: &ReadyRule, weighed: Option<Weighed>) {
        self.weighed.push(weighed);
        if rule.is_shadow() {
            return;
        }
        match weighed {
            Some(weighed) => {
                self.free_at = self.free_at.max(weighed.free_at);
                self.go_at = self.go_at.max(weighed.go_at);
            }
            None => self.never = true,
        }
    }

    /// Adds a policy that refuses every request.
    pub(crate) fn deny(&mut self) {
        (self.never, self.denied) = (true, true);
    }

    /// The earlier result of the rule that is [added](Self::add_after) next.
    pub(crate) fn before(&self) -> Option<Weighed> {
        self.weighed.get(self.after.len()).copied().flatten()
    }

    /// Adds one rule's result after a refused take was counted.
    pub(crate) fn add_after(&mut self, rule: &ReadyRule, weighed: Option<Weighed>, take: &Take, now: Timestamp) {
        self.after.push(weighed);
        if let Some(weighed) = weighed
            && !rule.is_shadow()
            && let Verdict::Deny { retry_after } = verdict_of(weighed, take, self.horizon, now)
        {
            self.retry_after_counted = self.retry_after_counted.max(retry_after);
        }
    }

    /// Whether the enforcing rules of one key deny the take, its automatic block apart. `positions` are those of its rules.
    pub(crate) fn denies(&self, rules: &[ReadyRule], positions: Range<usize>, take: &Take, now: Timestamp) -> bool {
        let weighed = self.weighed.get(positions).unwrap_or_default();
        rules.iter().zip(weighed).any(|(rule, weighed)| {
            let denied = |weighed| !matches!(verdict_of(weighed, take, self.horizon, now), Verdict::Allow { .. });
            !rule.is_shadow() && !rule.is_auto_block() && weighed.is_none_or(denied)
        })
    }

    /// Adds what applies to the whole key.
    #[inline]
    pub(crate) fn bound(&mut self, blocked_until: Timestamp, horizon: Span) {
        self.blocked_until = self.blocked_until.max(blocked_until);
        self.horizon = self.horizon.min(horizon);
    }

    /// Each rule's present numbers, and the verdict it would have given alone. A denial names the retry_after from now on,
    /// which is longer if the refusal was counted.
    pub(crate) fn rule_decisions<'a>(
        &self,
        looks: impl Iterator<Item = (&'a ReadyRule, Look)>,
        take: &Take,
        refused: bool,
        now: Timestamp,
    ) -> RuleDecisions {
        let (mut weighed, mut after) = (self.weighed.iter(), self.after.iter());
        RuleDecisions::collect(looks.map(|(rule, look)| {
            let after = after.next().copied().flatten();
            let verdict = self.verdict(weighed.next().copied().flatten(), after, take, refused, now);
            rule_decision(rule, look, verdict, now)
        }))
    }

    #[inline]
    fn verdict(
        &self,
        weighed: Option<Weighed>,
        after: Option<Weighed>,
        take: &Take,
        refused: bool,
        now: Timestamp,
    ) -> Verdict {
        let Some(weighed) = weighed else {
            return Verdict::Never;
        };
        match verdict_of(weighed, take, self.horizon, now) {
            Verdict::Allow { .. } if refused => Verdict::Allow { wait: Span::ZERO },
            Verdict::Allow { .. } => Verdict::Allow { wait: self.go_at.since(now) },
            denied => after.map_or(denied, |after| verdict_of(after, take, self.horizon, now)),
        }
    }

    #[inline]
    pub(crate) fn conclude(&self, rules: &[RuleDecision], refused: bool, now: Timestamp) -> (Verdict, DecidedBy) {
        if !refused {
            return (Verdict::Allow { wait: self.go_at.since(now) }, least_remaining(rules));
        }
        if self.denied {
            return (Verdict::Never, DecidedBy::Nothing);
        }
        let blocked = (self.blocked_until.since(now), DecidedBy::Block);
        let (retry_after, decided_by) = match strictest_denial(rules) {
            Some((index, Verdict::Never)) => return (Verdict::Never, DecidedBy::Rule(index)),
            Some((index, Verdict::Deny { retry_after })) if retry_after > blocked.0 => {
                (retry_after, DecidedBy::Rule(index))
            }
            _ => blocked,
        };
        // A rule that would have admitted it may have the longest retry_after once the refusal was counted.
        (Verdict::Deny { retry_after: retry_after.max(self.retry_after_counted) }, decided_by)
    }
}

/// The verdict of a rule that could admit the request at these times.
#[inline(always)]
pub(crate) fn verdict_of(Weighed { free_at, go_at }: Weighed, take: &Take, horizon: Span, now: Timestamp) -> Verdict {
    let (free_in, go_in) = (free_at.since(now), go_at.since(now));
    if take.whole_wait && (go_in > take.max_wait || go_in > horizon) {
        Verdict::Deny { retry_after: go_in }
    } else if free_in > take.max_wait || go_in > horizon {
        Verdict::Deny { retry_after: free_in.max(go_in - horizon) }
    } else {
        Verdict::Allow { wait: go_in }
    }
}

/// The decision of one rule, with its present numbers.
#[inline]
pub(crate) fn rule_decision(rule: &ReadyRule, look: Look, verdict: Verdict, now: Timestamp) -> RuleDecision {
    RuleDecision {
        verdict,
        limit: rule.algorithm().limit(),
        remaining: look.remaining,
        reset_after: look.reset_at.since(now),
        shadow: rule.is_shadow(),
        role: if rule.is_auto_block() { RuleRole::Block } else { RuleRole::Limit },
    }
}

/// Rules whose results need no allocation.
const INLINE: usize = 8;
