//! Combination of several results into one: rules of one decision, and decisions made one after another.
//!
//! The order of severity is the same everywhere: `never`, then the longest `retry_after`, then the longest `wait`. A
//! denied request is represented by the rule that denies it longest, an admitted one by the rule with the least remaining.

use crate::{
    decision::{DecidedBy, Decision, Source},
    rule_decisions::{RuleDecision, RuleDecisions, RuleRole},
    time::Span,
    verdict::Verdict,
};

/// The most severe denial of the enforcing rules and the position of its rule; `None` if all of them allow. Of equal
/// denials the first counts.
#[inline]
pub fn strictest_denial(rules: &[RuleDecision]) -> Option<(usize, Verdict)> {
    let mut strictest: Option<(usize, Verdict)> = None;
    for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| !rule.shadow && !rule.is_allowed()) {
        if strictest.is_none_or(|(_, verdict)| severity(rule.verdict) > severity(verdict)) {
            strictest = Some((index, rule.verdict));
        }
    }
    strictest
}

/// The rule that represents an admitted request: the one with the least remaining, enforcing rules before shadow rules.
#[inline]
pub fn least_remaining(rules: &[RuleDecision]) -> DecidedBy {
    let mut least: Option<(usize, &RuleDecision)> = None;
    for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.role == RuleRole::Limit) {
        let tighter =
            |(_, other): (usize, &RuleDecision)| (rule.shadow, rule.remaining) < (other.shadow, other.remaining);
        if least.is_none_or(tighter) {
            least = Some((index, rule));
        }
    }
    least.map_or(DecidedBy::Nothing, |(index, _)| DecidedBy::Rule(index))
}

impl Decision {
    /// Combines decisions that were made one after another, in this order, into one with [`Source::InTurn`]. The rules are
    /// those of all decisions; the verdict is the most severe one. A single decision is returned unchanged, and `None` if
    /// there are none.
    ///
    /// The first denial represents the result, because keys after it may only have been looked at. If all are allowed, the
    /// decision with the least remaining does.
    pub fn in_turn(decisions: &[Self]) -> Option<Self> {
        if let [single] = decisions {
            return Some(single.clone());
        }
        let denied = decisions.iter().position(|decision| !decision.is_allowed());
        let least = || (0..decisions.len()).min_by_key(|&index| decisions[index].remaining());
        let index = denied.or_else(least)?;
        let before: usize = decisions[..index].iter().map(|decision| decision.rules.len()).sum();
        Some(Self {
            verdict: decisions.iter().map(|decision| decision.verdict).max_by_key(|verdict| severity(*verdict))?,
            decided_by: match decisions[index].decided_by {
                DecidedBy::Rule(rule) => DecidedBy::Rule(before + rule),
                other => other,
            },
            source: Source::InTurn,
            decided_at: decisions.iter().map(|decision| decision.decided_at).max()?,
            lease: decisions.iter().find_map(|decision| decision.lease),
            granted: decisions.iter().filter_map(|decision| decision.granted).min(),
            rules: RuleDecisions::collect(decisions.iter().flat_map(|decision| decision.rules.iter().copied())),
        })
    }
}

impl Decision {
    /// The part of a decision about several keys that concerns one of them: the rules at these positions, and their
    /// verdict alone. `None` if the decision has no such rules. A block of one of the keys is reported for each of them,
    /// because a decision does not have the key that is blocked.
    pub fn part(&self, rules: std::ops::Range<usize>) -> Option<Self> {
        let rules = self.rules.get(rules)?;
        let (verdict, decided_by) = match (strictest_denial(rules), self.decided_by) {
            (Some((index, verdict)), _) => (verdict, DecidedBy::Rule(index)),
            (None, DecidedBy::Block) => (self.verdict, DecidedBy::Block),
            (None, _) => (Verdict::Allow { wait: self.verdict.wait() }, least_remaining(rules)),
        };
        let rules = RuleDecisions::collect(rules.iter().copied());
        let Self { source, decided_at, lease, granted, .. } = *self;
        Some(Self { verdict, decided_by, rules, source, decided_at, lease, granted })
    }
}

fn severity(verdict: Verdict) -> (u8, Span) {
    match verdict {
        Verdict::Allow { wait } => (0, wait),
        Verdict::Deny { retry_after } => (1, retry_after),
        Verdict::Never => (2, Span::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    const ALLOW: Verdict = Verdict::Allow { wait: Span::ZERO };

    fn deny(seconds: u64) -> Verdict {
        Verdict::Deny { retry_after: Span::from_secs(seconds) }
    }

    fn rule(verdict: Verdict, remaining: u64) -> RuleDecision {
        RuleDecision::new(verdict, 9, remaining, Span::ZERO)
    }

    #[test]
    fn the_longest_denial_of_an_enforcing_rule_counts() {
        let shadow = RuleDecision { shadow: true, ..rule(Verdict::Never, 0) };
        assert_eq!(strictest_denial(&[rule(ALLOW, 0), shadow]), None);
        assert_eq!(
            strictest_denial(&[shadow, rule(deny(1), 0), rule(deny(2), 0), rule(deny(2), 0)]),
            Some((2, deny(2)))
        );
        assert_eq!(strictest_denial(&[rule(deny(2), 0), rule(Verdict::Never, 5)]), Some((1, Verdict::Never)));
    }

    #[test]
    fn the_least_remaining_represents_an_admitted_request() {
        let shadow = RuleDecision { shadow: true, ..rule(ALLOW, 0) };
        assert_eq!(least_remaining(&[shadow, rule(ALLOW, 3), rule(ALLOW, 1), rule(ALLOW, 1)]), DecidedBy::Rule(2));
        assert_eq!(least_remaining(&[shadow]), DecidedBy::Rule(0));
        assert_eq!(least_remaining(&[]), DecidedBy::Nothing);
    }

    #[test]
    fn decisions_in_turn_are_as_severe_as_the_worst() {
        let decision =
            |verdict, remaining, now| Decision::of_one(rule(verdict, remaining), Timestamp::from_micros(now));
        assert_eq!(Decision::in_turn(&[]), None);
        assert_eq!(Decision::in_turn(&[decision(ALLOW, 1, 1)]), Some(decision(ALLOW, 1, 1)));

        let wait = Verdict::Allow { wait: Span::SECOND };
        let allowed = Decision::in_turn(&[decision(wait, 4, 1), decision(ALLOW, 2, 7)]).unwrap();
        assert_eq!((allowed.verdict, allowed.decided_by, allowed.remaining()), (wait, DecidedBy::Rule(1), 2));
        assert_eq!((allowed.decided_at, allowed.rules.len()), (Timestamp::from_micros(7), 2));

        let denied =
            Decision::in_turn(&[decision(ALLOW, 0, 1), decision(deny(1), 3, 2), decision(deny(5), 0, 3)]).unwrap();
        assert_eq!((denied.verdict, denied.decided_by), (deny(5), DecidedBy::Rule(1)));
    }
}
