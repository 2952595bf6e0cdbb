//! Quotas of a request (`quota_mode` of a descriptor): alternatives, of which one with room is enough.
//!
//! A quota is a rule that only watches, so it refuses nothing by itself. A request that has quotas is refused where every
//! one of them is over its limit, and passes again as soon as one has room.

use tollgate_core::{DecidedBy, Decision, Micros, RulesTold, Source, Verdict};

use super::{Answer, SubjectAnswer};

impl Answer {
    /// Refuses a request that would pass, if it has quotas and all of them are over. Says whether it did.
    pub(super) fn refuse_over_all_quotas(&mut self, now: impl FnOnce() -> Micros) -> bool {
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
            Some(decision) => Decision { verdict, decided_by, ..decision },
            None => Decision {
                verdict,
                decided_by,
                source: Source::Store,
                decided_at: now(),
                lease: None,
                rules: RulesTold::collect([]),
            },
        });
        true
    }

    /// When a quota that is over has room again, and by which rule; none if waiting cannot help.
    fn frees(&self, subject: &SubjectAnswer) -> Option<(Micros, usize)> {
        let rules = self.decision.as_ref()?.rules.get(subject.rules.clone())?;
        let mut longest = None;
        for (index, rule) in rules.iter().enumerate() {
            let retry_after = rule.verdict.retry_after()?;
            longest = longest.max(Some((retry_after, subject.rules.start + index)));
        }
        longest
    }
}
