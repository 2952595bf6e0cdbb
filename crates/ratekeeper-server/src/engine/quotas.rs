//! Quota mode (`quota_mode` of a descriptor): limits that refuse a request only if all of them are exceeded.
//!
//! The rules of a limit in quota mode are in shadow mode, so they never deny by themselves. A request is refused if it
//! has limits in quota mode and each of them is exceeded. It passes again as soon as one of them has room.

use ratekeeper_core::{DecidedBy, Decision, RuleDecisions, Span, Timestamp, Verdict};

use super::{Answer, SubjectAnswer};

impl Answer {
    /// Refuses an allowed request if it has limits in quota mode and all of them are exceeded. Returns whether it did.
    pub(super) fn refuse_over_all_quotas(&mut self, now: impl FnOnce() -> Timestamp) -> bool {
        let mut quotas = self.subjects.iter().filter(|subject| subject.quota_mode).peekable();
        if quotas.peek().is_none() || !self.is_allowed() || !quotas.all(|subject| subject.over_limit) {
            return false;
        }
        let quotas = self.subjects.iter().filter(|subject| subject.quota_mode);
        let soonest = quotas.filter_map(|subject| self.frees(subject)).min();
        let (verdict, decided_by) = match soonest {
            Some((retry_after, rule)) => (Verdict::Deny { retry_after }, DecidedBy::Rule(rule)),
            None => (Verdict::Never, DecidedBy::Nothing),
        };
        self.decision = Some(match self.decision.take() {
            Some(decision) => decision.with_verdict(verdict, decided_by),
            None => Decision::new(verdict, decided_by, RuleDecisions::collect([]), now()),
        });
        true
    }

    /// The time until an exceeded limit has room again, and the position of the rule that takes longest. `None` if
    /// waiting does not help.
    fn frees(&self, subject: &SubjectAnswer) -> Option<(Span, usize)> {
        let rules = self.decision.as_ref()?.rules.get(subject.rules.clone())?;
        let mut longest = None;
        for (index, rule) in rules.iter().enumerate() {
            let retry_after = rule.verdict.retry_after_span()?;
            longest = longest.max(Some((retry_after, subject.rules.start + index)));
        }
        longest
    }
}
